# SPDX-License-Identifier: Apache-2.0
"""A grant: a container's part of one GPU, and its text form on the hook's command line."""

from __future__ import annotations

from cgpu.errors import CgpuError, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    # Index of the GPU, then the attributes of the slice in the order of cgpu/slice.py
    Grant = tuple[int, ...]

LIMITS = (9999, 1 << 50, 999, 1)
SHARE_GROUPS = (8, 4, 4, 4, 12)
HEX = "0123456789abcdef"
FORM = "GPU:BYTES:WEIGHT:PRIORITY, four whole numbers, such as 0:6336544768:1:0"


def format_grants(grants: Iterable[Grant]) -> list[str]:
    """Return one GPU:BYTES:WEIGHT:PRIORITY text for each grant."""
    return [":".join(map(str, grant)) for grant in grants]


def parse_grant(text: str) -> Grant:
    """Read one GPU:BYTES:WEIGHT:PRIORITY text. Raises CgpuError when it is anything else."""
    parts = text.split(":") if len(text) <= 64 else []
    if len(parts) == len(LIMITS) and all(is_number(part, 16) for part in parts):
        gpu, memsize, weight, highprio = map(int, parts)
        if memsize > 0 and all(
            n <= limit for n, limit in zip((gpu, memsize, weight, highprio), LIMITS, strict=True)
        ):
            return gpu, memsize, weight, highprio
    raise CgpuError(f"--grant {show(text)}: expected {FORM}")


def parse_index(flag: str, text: str) -> int:
    """Read the number of a GPU. Raises CgpuError when it is anything else."""
    if is_number(text, 4):
        return int(text)
    raise CgpuError(f"{flag} {show(text)}: expected the number of a GPU, such as 0")


def parse_share(flag: str, text: str) -> str:
    """Read the id of a share. Raises CgpuError when it is anything else."""
    if is_share(text):
        return text
    raise CgpuError(f"{flag} {show(text)}: expected the id of a share, a UUID in small letters")


def is_share(text: str) -> bool:
    """Return whether a text has the form of a share's id: a UUID in small letters."""
    groups = text.split("-") if len(text) == 36 else []
    return tuple(map(len, groups)) == SHARE_GROUPS and all(letter in HEX for letter in "".join(groups))


def is_number(text: str, digits: int) -> bool:
    """Return whether a text is a whole number of at most so many digits, without zeros before it."""
    return len(text) <= digits and text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
