# SPDX-License-Identifier: Apache-2.0
"""Sizes as users of docker write them: 6G, 6GiB, 1.5g, 512M, or bytes. K, M, G and T are powers of 1024."""

from __future__ import annotations

import re

MIB = 1 << 20
ACCEPTED = "a size such as 6G, 512M or bytes"
_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(?:b|([kmgt])(?:i?b)?)?", re.ASCII | re.IGNORECASE)
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size_in_bytes(text: str) -> int | None:
    """Return the whole bytes of a size; None when it is none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    whole, fraction, unit = found.group(1), found.group(2) or "", (found.group(3) or "").lower()
    # In whole numbers: a float would round 6043.9999M up.
    return (int(whole + fraction) << _SHIFTS[unit]) // int(10 ** len(fraction))
