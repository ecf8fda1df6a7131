# SPDX-License-Identifier: Apache-2.0
"""Files of a node: where they lie below a root folder, which may be that of a copy, and their changes."""

from __future__ import annotations

import difflib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


def below(root: Path, path: str | Path) -> Path:
    """Return where an absolute path lies below a root folder."""
    return root / str(path).lstrip("/")


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file's bytes before and after; None: it is not there. mode is that of a file that is made."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o644


def diff(name: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """Yield the lines of a unified diff of a file, without their ends."""
    # Only "\n" ends a line here: splitlines() cuts at other characters as well.
    old, new = (
        io.StringIO((content or b"").decode("utf-8", "backslashreplace")).readlines()
        for content in (before, after)
    )
    old_name, new_name = ("/dev/null" if content is None else name for content in (before, after))
    for line in difflib.unified_diff(old, new, old_name, new_name):
        yield line.rstrip("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def obstacles(root: Path, edits: Sequence[FileEdit]) -> Iterator[str]:
    """Yield a line for each place that prevents an edit: read-only, or immutable."""
    if os.geteuid() != 0:
        return  # access(2) answers for the caller, and the edits are root's
    named = set()
    for edit in edits:
        real = Path(os.path.realpath(edit.path))
        folder = next(place for place in real.parents if place.is_dir())
        # A file is replaced by a rename, which its folder must allow, too.
        for place in (folder, real):
            if place not in named and place.exists() and not os.access(place, os.W_OK):
                named.add(place)
                yield f"/{edit.path.relative_to(root)}: cannot be changed: {_obstacle(place)}"
                break


def _obstacle(place: Path) -> str:
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"{place} is on a read-only file system: findmnt -T {place}"
    return f"{place} is immutable: chattr -i {place}"
