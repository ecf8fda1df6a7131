# SPDX-License-Identifier: Apache-2.0
"""A bundle's config.json: read within a bound, replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os

from cgpu.errors import CgpuError
from cgpu.files import read_fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

NAME = "config.json"
# Only a kill between creating and renaming it leaves it behind; the next edit replaces it.
TEMPORARY = ".config.json.cgpu"
MAX_BYTES = 16 << 20


class Bundle:
    """An open bundle directory: every step works on what was opened, whatever its path means later."""

    __slots__ = ("_fd", "_path", "_status")

    def __init__(self, path: str) -> None:
        """Open the directory. Raises CgpuError."""
        self._path = path
        self._status: os.stat_result | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise CgpuError(f"bundle {path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read(self) -> bytes:
        """Return config.json. Raises CgpuError when it is missing, no regular file, or past MAX_BYTES."""
        try:
            fd = os.open(NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._fd)
        except OSError as error:
            raise self._error(error.strerror) from error
        try:
            self._status = os.fstat(fd)
            if self._status.st_mode & 0o170000 != 0o100000:
                raise self._error("expected a regular file")
            return read_fd(fd, MAX_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise self._error(f"expected at most {MAX_BYTES} bytes") from error
            raise self._error(error.strerror) from error
        finally:
            os.close(fd)

    def write(self, raw: bytes) -> None:
        """Replace what read() returned by new content, with its owner and mode. Raises CgpuError."""
        before = self._status
        if before is None:
            raise self._error("written before it was read")
        try:
            now = os.stat(NAME, dir_fd=self._fd, follow_symlinks=False)
            if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
                raise self._error("a symbolic link, or exchanged meanwhile; expected a plain file")
            self._write_temporary(raw, before)
            os.rename(TEMPORARY, NAME, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            self._status = os.stat(NAME, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            self._remove_temporary()
            raise self._error(f"cannot be replaced ({error.strerror})") from error

    def _write_temporary(self, raw: bytes, like: os.stat_result) -> None:
        self._remove_temporary()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(TEMPORARY, flags, 0o600, dir_fd=self._fd)
        try:
            left = memoryview(raw)
            while left:
                left = left[os.write(fd, left) :]
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, like.st_mode & 0o7777)
        finally:
            os.close(fd)

    def _remove_temporary(self) -> None:
        try:
            os.unlink(TEMPORARY, dir_fd=self._fd)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise self._error(f"{TEMPORARY} cannot be removed ({error.strerror})") from error

    def _error(self, why: str | None) -> CgpuError:
        return CgpuError(f"{self._path}/{NAME}: {why}")
