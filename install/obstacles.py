# SPDX-License-Identifier: Apache-2.0
"""Files that root cannot change: on a read-only file system, or immutable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgpu.install.places import on_node, target
from cgpu.node_files import FileEdit


def obstacles(root: Path, edits: Sequence[FileEdit]) -> Iterator[str]:
    """Yield a line for each place that prevents one of the edits. Raises CgpuError."""
    if os.geteuid() != 0:
        return  # access(2) answers for the caller, and the installation is root's
    named = set()
    for edit in edits:
        name = on_node(root, edit.path)
        real = target(root, name)
        folder = next(place for place in real.parents if place.is_dir())
        # A file is replaced by a rename, which its folder must allow, too.
        for place in (folder, real):
            if place not in named and place.exists() and not os.access(place, os.W_OK):
                named.add(place)
                yield _explain(name, place)
                break


def _explain(name: str, place: Path) -> str:
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"{name}: cannot be changed: {place} is on a read-only file system: findmnt -T {place}"
    return f"{name}: cannot be changed: {place} is immutable: chattr -i {place}"
