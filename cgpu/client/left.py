# SPDX-License-Identifier: Apache-2.0
"""Reads the tree's entry `left` of a GPU: memory of removed containers that the driver has not freed."""

from __future__ import annotations

from cgpu.errors import CgpuError, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

UNNAMED = "-"
DIGITS = 20


def parse(text: str) -> Mapping[str, int]:
    """Return the bytes by the container's id, UNNAMED where that is not known. Raises CgpuError."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        container, _, size = line.partition(" ")
        if not (container and size.isascii() and size.isdigit() and len(size) <= DIGITS):
            raise CgpuError(f"left: {show(line)}: expected a container and bytes; see the engine's log")
        found[container] = found.get(container, 0) + int(size)
    return found
