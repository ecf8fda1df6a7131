# SPDX-License-Identifier: Apache-2.0
"""Files that root cannot change: on a read-only file system, or immutable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgpu.install.places import on_node, target
from cgpu.node_files import FileEdit


def obstacles(root: Path, edits: Sequence[FileEdit]) -> Iterator[str]:
    """Yield a line for each place where edits could not be made. Raises CgpuError."""
    if os.geteuid() != 0:
        return  # only --dry-run, which says nothing of what root may do
    said = set()
    for edit in edits:
        name = on_node(root, edit.path)
        real = target(root, name)
        folder = next(place for place in real.parents if place.is_dir())
        for place in (folder, real):
            # access(2) asks for a read-only file system and the immutable flag, which stop root, too.
            if place not in said and place.exists() and not os.access(place, os.W_OK):
                said.add(place)
                yield _line(name, place)
                break


def _line(name: str, place: Path) -> str:
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"{name}: cannot be changed: {place} is on a read-only file system: findmnt -T {place}"
    return f"{name}: cannot be changed: {place} is immutable: chattr -i {place}"
