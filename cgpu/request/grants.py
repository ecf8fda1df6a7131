# SPDX-License-Identifier: Apache-2.0
"""A grant: a container's part of one GPU; and the forms of numbers and of a share's id."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Index of the GPU, then the attributes of the slice in the order of cgpu/slice.py
    Grant = tuple[int, ...]

SHARE_GROUPS = (8, 4, 4, 4, 12)
HEX = "0123456789abcdef"


def is_share(text: str) -> bool:
    """Return whether a text has the form of a share's id: a UUID in small letters."""
    groups = text.split("-") if len(text) == 36 else []
    return tuple(map(len, groups)) == SHARE_GROUPS and all(letter in HEX for letter in "".join(groups))


def is_number(text: str, digits: int) -> bool:
    """Return whether a text is a whole number of at most so many digits, without zeros before it."""
    return len(text) <= digits and text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
