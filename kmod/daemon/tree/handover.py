# SPDX-License-Identifier: Apache-2.0
"""The tree while one daemon takes over from another: operations wait, then either daemon answers them."""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from cgpu.kmod.daemon.tree.callers import check_writer
from cgpu.kmod.daemon.tree.fuse import mfusepy
from cgpu.kmod.daemon.tree.tree_fs import calling_pid

if TYPE_CHECKING:
    from cgpu.kmod.daemon.tree.tree_fs import TreeFs

WAIT_S = 30.0
FIRST_HANDLE = 1 << 32  # TreeFs counts from 1


class TreeSwitch:
    """Whether operations on the tree run, and which daemon answers. Each holds the lock of this switch."""

    def __init__(self) -> None:
        """Let operations run from the beginning."""
        self._changed = threading.Condition(threading.Lock())
        self._suspended = False
        self._successor: SuccessorFs | None = None
        self._latest = 0.0
        self.open_directories = 0

    def __enter__(self) -> SuccessorFs | None:
        """Begin an operation; give the other daemon's tree where that one answers.

        Waits while operations are suspended. Raises OSError: EAGAIN after a long time.
        """
        self._changed.acquire()
        if self._suspended and not self._changed.wait_for(lambda: not self._suspended, WAIT_S):
            self._changed.release()
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self._successor

    def __exit__(self, *_: object) -> None:
        """End the operation."""
        self._latest = time.monotonic()
        self._changed.release()

    def quiet_s(self) -> float:
        """Return for how many seconds no operation has come since operations run again."""
        return time.monotonic() - self._latest

    def suspend(self, wait_s: float) -> bool:
        """Begin no further operation. False: one is under way, and nothing has changed."""
        if not self._changed.acquire(timeout=wait_s):
            return False
        self._suspended = True
        self._changed.release()
        return True

    def resume(self, successor: SuccessorFs | None = None) -> None:
        """Let operations run, here or in the other daemon's tree."""
        with self._changed:
            self._suspended = False
            self._successor = successor
            self._latest = time.monotonic()
            self._changed.notify_all()


class SuccessorFs:
    """Operations on the mount of another daemon, which covers this one's: of files that were open before."""

    def __init__(self, path: str) -> None:
        """path: of the other daemon's tree."""
        self._path = path
        self._fds: dict[int, int] = {}
        self._next = FIRST_HANDLE

    def open_files(self) -> int:
        """Return how many there are."""
        return len(self._fds)

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        """Give a node's attributes."""
        found = os.lstat(self._path + path)
        times = {name: getattr(found, f"{name}_ns") for name in ("st_atime", "st_mtime", "st_ctime")}
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size")
        return {**{name: getattr(found, name) for name in names}, **times}

    def readdir(self, path: str, fh: Any) -> list[str]:
        """List a directory."""
        return [".", "..", *os.listdir(self._path + path)]

    def open(self, path: str, fi: Any) -> int:
        """Open an entry there. The caller's rights are checked here: there this process is the writer."""
        check_writer(calling_pid())
        access = fi.flags & os.O_ACCMODE
        handle = self._next
        self._next += 1
        self._fds[handle] = os.open(self._path + path, access | os.O_CLOEXEC)
        fi.fh = handle
        fi.direct_io = True
        return 0

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:
        """Read a part."""
        return os.pread(self._fd(path, fi, os.O_RDONLY), size, offset)

    def write(self, path: str, data: bytes, offset: int, fi: Any) -> int:
        """Make one write."""
        check_writer(calling_pid())
        return os.pwrite(self._fd(path, fi, os.O_RDWR), data, offset)

    def truncate(self, path: str, length: int, fh: Any = None) -> int:
        """Accept the truncation that the shell's > makes before it writes."""
        os.lstat(self._path + path)
        check_writer(calling_pid())
        return 0

    def release(self, path: str, fi: Any) -> int:
        """Close."""
        fd = self._fds.pop(int(fi.fh), -1)
        if fd >= 0:
            os.close(fd)
        return 0

    def _fd(self, path: str, fi: Any, access: int) -> int:
        """Return our descriptor of a file, also of one that was opened here before."""
        handle = int(fi.fh)
        if handle not in self._fds:
            self._fds[handle] = os.open(self._path + path, access | os.O_CLOEXEC)
        return self._fds[handle]


class SwitchedFs(mfusepy.Operations):  # type: ignore[misc]
    """A tree behind a switch."""

    use_ns = True

    def __init__(self, tree: TreeFs, switch: TreeSwitch) -> None:
        """tree: of this daemon, which answers until another one takes over."""
        self._tree = tree
        self._switch = switch
        self.ready = threading.Event()

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:
        """Say that the kernel has the mount."""
        self.ready.set()

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        """Give a node's attributes."""
        with self._switch as there:
            return (there or self._tree).getattr(path, fh)

    def readdir(self, path: str, fh: Any) -> list[str]:
        """List a directory."""
        with self._switch as there:
            return (there or self._tree).readdir(path, fh)

    def opendir(self, path: str) -> int:
        """Count a directory that somebody lists: this daemon does not end before that.

        Only for a thread that may write, as TreeFs.open().
        """
        check_writer(calling_pid())
        with self._switch:
            self._switch.open_directories += 1
        return 0

    def releasedir(self, path: str, fh: int) -> int:
        """Forget a directory that was listed."""
        with self._switch:
            self._switch.open_directories -= 1
        return 0

    def open(self, path: str, fi: Any) -> int:
        """Open a node."""
        with self._switch as there:
            return (there or self._tree).open(path, fi)

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:
        """Read a part."""
        with self._switch as there:
            return (there or self._tree).read(path, size, offset, fi)

    def write(self, path: str, data: bytes, offset: int, fi: Any) -> int:
        """Make one write."""
        with self._switch as there:
            return (there or self._tree).write(path, data, offset, fi)

    def truncate(self, path: str, length: int, fh: Any = None) -> int:
        """Accept the truncation that the shell's > makes before it writes."""
        with self._switch as there:
            return (there or self._tree).truncate(path, length, fh)

    def release(self, path: str, fi: Any) -> int:
        """Forget an open node."""
        with self._switch as there:
            if there is not None:
                there.release(path, fi)
            return self._tree.release(path, fi)

    def statfs(self, path: str) -> dict[str, int]:
        """Answer df: nothing is stored here."""
        return self._tree.statfs(path)

    def _refuse(self, *_: object) -> int:
        """Refuse: the engine alone makes, changes and removes entries.

        Without a method the kernel would say that the file system lacks the function.
        """
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    create = mknod = mkdir = symlink = link = rename = unlink = rmdir = _refuse
    chmod = chown = utimens = _refuse
