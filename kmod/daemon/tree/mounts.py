# SPDX-License-Identifier: Apache-2.0
"""Mounts of the tree: made by libfuse, taken away here."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import select
from pathlib import Path

MNT_FORCE = 1
MNT_DETACH = 2
MS_BIND = 4096
# include/uapi/linux/mount.h, fcntl.h; the call has one number on all processors (scripts/syscall.tbl)
OPEN_TREE = 428
OPEN_TREE_CLONE = 1
AT_FDCWD = -100
LIBC = ctypes.CDLL(None, use_errno=True)
MOUNTINFO = Path("/proc/self/mountinfo")
MOUNTINFO_MAX = 16 << 20


def unescape(field: str) -> str:
    r"""Undo the octal escapes of mountinfo, proc(5): \040 is a space."""
    raw = field.encode("utf-8", "surrogateescape")
    plain = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8) & 0xFF]), raw)
    return plain.decode("utf-8", "surrogateescape")


def mounted(path: str, mountinfo: Path = MOUNTINFO) -> list[str]:
    """Return the file system types mounted on a path, the lowest first. Never touches the path itself."""
    found = []
    with mountinfo.open("rb") as stream:
        text = stream.read(MOUNTINFO_MAX).decode("utf-8", "surrogateescape")
    # A mount may have any name, with "\n" escaped: splitlines() would cut at what else ends a line.
    for line in text.split("\n"):
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) > 4 and kinds and unescape(fields[4]) == path:
            found.append(kinds[0])
    return found


class Changes:
    """Tells whether mounts have changed since it was asked last."""

    def __init__(self) -> None:
        """Begin now. Raises OSError."""
        self._fd = os.open(MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        # The kernel reports each change once for each open file, as an exception (proc(5)).
        self._poll.register(self._fd, select.POLLPRI)

    def any(self) -> bool:
        """Return whether a mount came or went."""
        return bool(self._poll.poll(0))


def is_fuse(path: str) -> bool:
    """Tell whether a FUSE file system is mounted on a path, covered or not."""
    return any(kind.startswith("fuse") for kind in mounted(path))


def _raise_failure(result: int, path: str) -> int:
    """Raise OSError for a call of the C library that has failed; else return its result."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result


def bind(source: str, target: str) -> None:
    """Bind the mount of a path to another path, too. Raises OSError."""
    _raise_failure(LIBC.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND, None), target)


def open_alone(path: str) -> int:
    """Return a descriptor of the mount on a path, without the mounts around it. Raises OSError.

    By a descriptor of the mount itself its holder would reach all of the host's files through "..".
    """
    how = OPEN_TREE_CLONE | os.O_CLOEXEC
    return _raise_failure(LIBC.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(path), how), path)


def detach(path: str, how: int = 0) -> None:
    """Take a mount off a path, in use or not. Nothing mounted there is fine. Raises OSError."""
    try:
        _raise_failure(LIBC.umount2(os.fsencode(path), MNT_DETACH | how), path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise


def remove(path: str) -> None:
    """Take every FUSE mount off a path, and the empty directory away: one with files of others stays."""
    clear_fuse(path)
    with contextlib.suppress(OSError):
        Path(path).rmdir()


def clear_fuse(path: str, *, force: bool = False) -> None:
    """Take every FUSE mount off a path: one that a dead daemon left makes its readers fail.

    force: whoever serves it, or has it open, all that is asked of it ends at once.
    """
    for kind in mounted(path):
        if kind.startswith("fuse"):
            with contextlib.suppress(OSError):
                detach(path, MNT_FORCE if force else 0)
