# SPDX-License-Identifier: Apache-2.0
"""A GPU's entry `reserved`, read as the reservations of shares."""

from __future__ import annotations

from typing import NamedTuple

from cgpu.errors import CgpuError, show
from cgpu.slice import ATTRIBUTES, Slice

UNUSED = "-"
LINES = 25  # as many as a GPU has places


class Reservation(NamedTuple):
    """A share's reservation on one GPU.

    container: the id of the container that uses the reservation, None while none does.
    """

    share: str
    slice: Slice
    container: str | None


def parse(text: str) -> tuple[Reservation, ...]:
    """Return what an entry says. Raises CgpuError for a line that is none."""
    lines = text.split("\n") if text else []
    if len(lines) > LINES:
        raise CgpuError(f"reserved: {len(lines)} lines, expected at most {LINES}; see the engine's log")
    return tuple(_line(line) for line in lines)


def _line(line: str) -> Reservation:
    words = line.split(" ")
    if len(words) == len(ATTRIBUTES) + 2 and words[0] and words[-1]:
        numbers = [
            int(word)
            for word, of in zip(words[1:-1], ATTRIBUTES, strict=True)
            if word.isascii() and word.isdigit() and len(word) <= of.digits
        ]
        if len(numbers) == len(ATTRIBUTES):
            return Reservation(words[0], Slice(*numbers), None if words[-1] == UNUSED else words[-1])
    names = ", ".join(one.name for one in ATTRIBUTES)
    raise CgpuError(f"reserved: {show(line)}: expected share, {names} and container; see the engine's log")
