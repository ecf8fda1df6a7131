# SPDX-License-Identifier: Apache-2.0
"""Reading of files and descriptors with a bound on their size."""

from __future__ import annotations

import errno
import os

CHUNK = 1 << 16


def open_nofollow(path: str | os.PathLike[str]) -> int:
    """Open a file or folder for reading, following no link in its last part. Raises OSError."""
    # O_NONBLOCK: a named pipe put in the file's place must not hold the caller.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


def read_fd(fd: int, limit: int) -> bytes:
    """Read a descriptor to its end. Raises OSError(EFBIG) when there are more than limit bytes."""
    chunks: list[bytes] = []
    left = limit + 1
    while left > 0:
        chunk = os.read(fd, min(left, CHUNK))
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        left -= len(chunk)
    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


def read_bounded(path: str, limit: int) -> bytes:
    """Read a whole file without following a link in its last part. Raises OSError, EFBIG past limit bytes."""
    fd = open_nofollow(path)
    try:
        return read_fd(fd, limit)
    finally:
        os.close(fd)
