# SPDX-License-Identifier: Apache-2.0
"""The value of `cgpu run --mem`: one size for each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgpu.sizes import ACCEPTED, MIB, size_in_bytes

if TYPE_CHECKING:
    from cgpu.request.spec import SourcedValue

MAX_TEXT = 1024
LIST = f"expected {ACCEPTED}, or a comma list of them, one for each GPU"


def parse_sizes(value: SourcedValue) -> tuple[int, ...]:
    """Return the whole MiB of each size in a comma list. Raises CgpuError, also for less than 1 MiB."""
    if len(value.text) > MAX_TEXT:
        raise value.refuse(LIST)
    return tuple(_mib(value, part) for part in value.text.split(","))


def _mib(value: SourcedValue, part: str) -> int:
    size = size_in_bytes(part)
    if size is None:
        raise value.refuse(LIST)
    if size < MIB:
        raise value.refuse(f"{part} is less than 1 MiB; a number alone is bytes, so write 6G or 512M")
    return size // MIB
