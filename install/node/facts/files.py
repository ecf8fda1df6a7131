# SPDX-License-Identifier: Apache-2.0
"""Reading below a root folder. An unreadable file is None: facts are gathered, never demanded."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cgpu.files import read_fd
from cgpu.node_files import below

MAX_BYTES = 1 << 20
MAX_LINKS = 16


def text(root: Path, path: str | Path, limit: int = MAX_BYTES) -> str | None:
    """Return a file's text; None when it is not there, no plain file, or larger than limit."""
    raw = content(root, path, limit)
    return None if raw is None else raw.decode("utf-8", "replace")


def content(root: Path, path: str | Path, limit: int = MAX_BYTES) -> bytes | None:
    """Return a file's bytes; None as for text()."""
    try:
        # O_NONBLOCK: a named pipe put in the file's place must not hold us up.
        fd = os.open(follow(root, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return read_fd(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def line(root: Path, path: str | Path) -> str | None:
    """Return a small file's text without blanks around it."""
    found = text(root, path, 1 << 16)
    return None if found is None else found.strip()


def names(root: Path, path: str | Path) -> list[str]:
    """Return the sorted names in a folder; none when there is no such folder."""
    try:
        return sorted(os.listdir(follow(root, path)))
    except OSError:
        return []


def exists(root: Path, path: str | Path) -> bool:
    """Tell whether something is there, as the mount of a dead daemon is, to which every access fails."""
    try:
        return follow(root, path).exists()
    except OSError:
        return True


def follow(root: Path, path: str | Path) -> Path:
    """Return where a path leads, with links that name absolute paths kept below the root."""
    at = below(root, path)
    if str(root) == "/":
        return at
    for _ in range(MAX_LINKS):
        link = next((one for one in _prefixes(root, at) if one.is_symlink()), None)
        if link is None:
            return at
        target = os.readlink(link)
        start = below(root, target) if target.startswith("/") else link.parent / target
        at = Path(os.path.normpath(start / at.relative_to(link)))
    return at


def _prefixes(root: Path, at: Path) -> Iterator[Path]:
    try:
        parts = at.relative_to(root).parts
    except ValueError:
        return
    for count in range(1, len(parts) + 1):
        yield root.joinpath(*parts[:count])
