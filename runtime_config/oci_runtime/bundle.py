# SPDX-License-Identifier: Apache-2.0
"""Reads a bundle's config.json up to MAX_BYTES, and replaces the whole file or nothing, by a rename."""

from __future__ import annotations

import errno
import os

from cgpu.errors import CgpuError
from cgpu.files import read_fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

NAME = "config.json"
# write() leaves this file behind only when the process is killed before the rename. The next write()
# removes the file.
TEMPORARY = ".config.json.cgpu"
MAX_BYTES = 16 << 20


class Bundle:
    """An open bundle directory. Its descriptor is used, so a later change of the path does not matter."""

    __slots__ = ("_fd", "_file", "_path", "_status")

    def __init__(self, path: str) -> None:
        """Open the directory. Raises CgpuError."""
        self._path = path
        self._file: int | None = None  # open: no other file can get its inode
        # The status of the config.json that read() or write() handled last.
        self._status: os.stat_result | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise CgpuError(f"bundle {path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def descriptors(self) -> tuple[int, int]:
        """Return descriptors of the directory and of the config.json that read() found, until this is left.

        Raises CgpuError when nothing was read.
        """
        if self._file is None:
            raise self._error("handed on before it was read")
        return self._fd, self._file

    def read(self) -> bytes:
        """Return the content of config.json.

        Raises CgpuError when config.json is missing, is no regular file or exceeds MAX_BYTES.
        """
        self._close_file()
        try:
            self._file = os.open(NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._fd)
            self._status = os.fstat(self._file)
            if self._status.st_mode & 0o170000 != 0o100000:  # S_IFMT, S_IFREG
                raise self._error("expected a regular file")
            return read_fd(self._file, MAX_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise self._error(f"expected at most {MAX_BYTES} bytes") from error
            raise self._error(error.strerror) from error

    def write(self, raw: bytes) -> None:
        """Replace the config.json that read() returned; the new file keeps its owner and mode.

        Raises CgpuError when nothing was read, or when another file has taken the place of config.json.
        """
        old = self._status
        if old is None:
            raise self._error("written before it was read")
        try:
            current = os.stat(NAME, dir_fd=self._fd, follow_symlinks=False)
            if (current.st_dev, current.st_ino) != (old.st_dev, old.st_ino):
                raise self._error("a symbolic link, or exchanged meanwhile; expected a plain file")
            self._write_temporary(raw, old)
            os.rename(TEMPORARY, NAME, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            self._status = os.stat(NAME, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            self._remove_temporary()
            raise self._error(f"cannot be replaced ({error.strerror})") from error

    def _write_temporary(self, raw: bytes, old: os.stat_result) -> None:
        self._remove_temporary()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(TEMPORARY, flags, 0o600, dir_fd=self._fd)
        try:
            remaining = memoryview(raw)
            while remaining:
                remaining = remaining[os.write(fd, remaining) :]
            made = os.fstat(fd)  # its group may be the folder's, not ours
            if (old.st_uid, old.st_gid) != (made.st_uid, made.st_gid):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, old.st_mode & 0o7777)
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
