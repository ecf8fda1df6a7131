# SPDX-License-Identifier: Apache-2.0
"""Sizes as users of docker and Kubernetes write them: 6G, 6Gi, 6GiB, 1.5g, 512M, or bytes.

A part of a card's memory is written 40%. K, M, G and T are powers of 1024. Hook and container runtime read
them at a container's start.
"""

from __future__ import annotations

MIB = 1 << 20
ACCEPTED = "a size such as 6G, 512M or bytes"
_LETTERS = "bBiIkKmMgGtT"
_PREFIXES = (("k", 10), ("m", 20), ("g", 30), ("t", 40))
_SHIFTS = {"": 0, "b": 0}
_SHIFTS.update((f"{unit}{end}", shift) for unit, shift in _PREFIXES for end in ("", "b", "i", "ib"))


def size_in_bytes(text: str) -> int | None:
    """Return the whole bytes of a size; None when it is none."""
    number = text.rstrip(_LETTERS)
    shift = _SHIFTS.get(text[len(number) :].lower())
    found = _decimal(number)
    if shift is None or found is None:
        return None
    # In whole numbers: a float would round 6043.9999M up.
    numerator, denominator = found
    return (numerator << shift) // denominator


def memory_in_bytes(text: str, card: int) -> int | None:
    """Return the whole bytes of a size, or of a percentage of so many bytes of a card; None when neither."""
    if not text.endswith("%"):
        return size_in_bytes(text)
    found = _decimal(text[:-1])
    return None if found is None else card * found[0] // (100 * found[1])


def is_memory(text: str) -> bool:
    """Return whether a text is a size or a percentage."""
    return memory_in_bytes(text, 0) is not None


def _decimal(text: str) -> tuple[int, int] | None:
    """Return numerator and denominator of a number such as 6 or 1.5; None when it is none."""
    whole, point, fraction = text.partition(".")
    if not whole or len(whole) > 15 or len(fraction) > 9 or bool(point) != bool(fraction):
        return None
    digits = whole + fraction
    return (int(digits), 10 ** len(fraction)) if digits.isascii() and digits.isdigit() else None
