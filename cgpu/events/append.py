# SPDX-License-Identifier: Apache-2.0
"""Writes to the event log. Imported by the hook, so what it imports is little.

The log is two files of bounded size with one JSON object a line. Its writers are the hook, the runtime and
cgpud, several at once. Each line is one write to a file that is opened for appending, so no two lines mix.
"""

from __future__ import annotations

import os
import time

from cgpu.fastjson import flat_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = str | int

MAX_BYTES = 1 << 20  # of one file
ROOM_PARTS = 8  # of which one is for what is written while the file is renamed
TRIES = 3
MAX_TEXT = 1024  # characters of one value
OLDER = ".1"  # the end of the name of the file before


def append(event: str, fields: Mapping[str, Value], path: str) -> None:
    """Write one event. Where that cannot be done there is none: nothing else may fail for it."""
    line = line_of(event, fields, time.time_ns())
    try:
        # A file that two others have filled meanwhile is gone, and the line with it.
        for _ in range(TRIES):
            if _is_kept(path, line):
                return
    except OSError:
        return


def _is_kept(path: str, line: bytes) -> bool:
    """Write a line; return whether it is in one of the log's files, or is not to be."""
    fd = _open_with_room(path, len(line))
    try:
        # Where the file cannot be renamed it must not grow for ever. While another writer renames it, which
        # may be interrupted, there is room for some lines more.
        if not _is_overfull(fd):
            os.write(fd, line)
        return os.fstat(fd).st_nlink > 0
    finally:
        os.close(fd)


def _is_overfull(fd: int) -> bool:
    """Return whether a file has taken more than the lines that come while it is renamed."""
    return os.fstat(fd).st_size > MAX_BYTES + MAX_BYTES // ROOM_PARTS


def line_of(event: str, fields: Mapping[str, Value], time_ns: int) -> bytes:
    """Return the line of an event: printable ASCII, whatever is in it."""
    cut = {key: value[:MAX_TEXT] if isinstance(value, str) else value for key, value in fields.items()}
    return f"{flat_object({'time': rfc3339(time_ns), 'event': event, **cut})}\n".encode("ascii")


def rfc3339(time_ns: int) -> str:
    """Return a time since 1970 as RFC 3339 writes it, with microseconds."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ns // 1_000_000_000))
    return f"{moment}.{time_ns // 1000 % 1_000_000:06}Z"


def _open_with_room(path: str, length: int) -> int:
    fd = _open(path)
    try:
        if os.fstat(fd).st_size + length <= MAX_BYTES:
            return fd
        _rotate(fd, path)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return _open(path)


def _open(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        # On a node with the module no other program may have made the folder.
        os.mkdir(os.path.dirname(path), 0o700)
        return os.open(path, flags, 0o600)


def _rotate(fd: int, path: str) -> None:
    """Rename a full file, unless another writer is at it or has done it: the file before must not be lost.

    A writer has the lock for a moment. Root of a container that sees the file, also read-only, can keep it.
    """
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not _is_overfull(fd):
            return
    try:
        is_ours = os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:  # renamed by another writer, which has not made the next one yet
        return
    if is_ours:
        os.rename(path, path + OLDER)
