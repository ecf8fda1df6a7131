# SPDX-License-Identifier: Apache-2.0
"""The value of `cgpu run --mem`: one size for each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgpu.sizes import ACCEPTED, MIB, size_in_bytes

if TYPE_CHECKING:
    from cgpu.ask import Said

MAX_TEXT = 1024
LIST = f"accepted is {ACCEPTED}, or a comma list of them, one for each GPU"


def parse_sizes(said: Said) -> tuple[int, ...]:
    """Return the whole MiB of each size in a comma list. Raises CgpuError, also for less than 1 MiB."""
    if len(said.text) > MAX_TEXT:
        raise said.refuse(LIST)
    return tuple(_mib(said, part) for part in said.text.split(","))


def _mib(said: Said, part: str) -> int:
    size = size_in_bytes(part)
    if size is None:
        raise said.refuse(LIST)
    if size < MIB:
        raise said.refuse(f"{part} is less than 1 MiB; a number alone is bytes, so write 6G or 512M")
    return size // MIB
