# SPDX-License-Identifier: Apache-2.0
"""The tree as a file system. Every operation goes to the core; a write is one transaction."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.kmod.daemon.engine import RefusedWriteError
from cgpu.kmod.daemon.tree import mounts
from cgpu.kmod.daemon.tree.callers import check_writer, may_write
from cgpu.kmod.daemon.tree.connection import connections
from cgpu.kmod.daemon.tree.fuse import mfusepy

if TYPE_CHECKING:
    from collections.abc import Callable

    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.library import Node

READY_S = 10.0
LEAVE_S = 0.1  # for processes that are just reading
LAST_S = 2.0  # an operation that takes longer gets no answer
HELD_S = 1.0  # whoever has a node open for this long may do so for ever
ASK_S = 0.002
ROOT_MODE = 0o700  # nothing below is reachable for anyone but root
SOCKET_MODE = 0o600
MAX_OPEN = 65536
FS_NAME = "cgpud"
# Attributes of an entry never change. Whether it is there is asked of this process for each use of a path.
ATTRIBUTES_S = 1
CONTROL = "/inst_ctl"
SOCKET = f"/{Path(paths.SECCOMP_SOCKET).name}"  # the listeners' socket: only who may write finds it
NO_ANSWER = "the NVIDIA driver does not answer: see the engine's log\n"


def calling_pid() -> int:
    """Return the thread that makes the FUSE request in hand; 0 when it is in no namespace of ours."""
    return int(mfusepy.fuse_get_context()[2])


class OpenFile:
    """One open node: its text is taken when reading begins, so that parts fit together.

    why: the reason for which its last write was refused, which is read in place of the text.
    """

    __slots__ = ("node", "since", "text", "why")

    def __init__(self, node: Node) -> None:
        """Keep the node; the text comes with the first read."""
        self.node = node
        self.since = time.monotonic()
        self.text: bytes | None = None
        self.why = b""


class TreeFs(mfusepy.Operations):  # type: ignore[misc]
    """FUSE operations over the core's tree. Errors are the core's errno."""

    use_ns = True

    def __init__(self, engine: Engine, registered: Callable[[], None]) -> None:
        """Serve an engine's tree. registered: is called before the writer of a registration goes on."""
        self._engine = engine
        self._registered = registered
        self._lock = threading.Lock()
        self._open: dict[int, OpenFile] = {}
        self._listed: dict[int, float] = {}  # since when each directory is
        self._next = 1
        self._has_socket = False
        self._born = time.time_ns()
        self._leave_by: float | None = None
        self.ready = threading.Event()

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:
        """Say that the kernel has the mount."""
        self.ready.set()

    def leave(self, wait_s: float) -> None:
        """End the serving thread after an operation: once none has just been opened, or after so long."""
        self._leave_by = time.monotonic() + wait_s

    def _may_leave(self) -> None:
        """In an operation of the thread that serves, after which it takes no other one."""
        if self._leave_by is None:
            return
        now = time.monotonic()
        opened = (*(one.since for one in self._open.values()), *self._listed.values())
        if now > self._leave_by or all(now - since > HELD_S for since in opened):
            mfusepy.fuse_exit()

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        """Give a node's attributes; like procfs, files have no size."""
        self._may_leave()
        if path == SOCKET and self._has_socket and may_write(calling_pid()):
            return self._attributes(stat.S_IFSOCK | SOCKET_MODE)
        node = self._engine.lookup(path)
        kind = stat.S_IFDIR if node.directory else stat.S_IFREG
        return self._attributes(kind | (ROOT_MODE if path == "/" else node.mode))

    def _attributes(self, mode: int) -> dict[str, Any]:
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self._born)
        return {
            "st_mode": mode,
            "st_nlink": 2 if stat.S_ISDIR(mode) else 1,
            "st_uid": 0,
            "st_gid": 0,
            "st_size": 0,
            **times,
        }

    def mknod(self, path: str, mode: int, dev: int) -> int:
        """Have the listeners' socket, which this process binds: the kernel finds a socket by its inode.

        A process that does not find it cannot connect, so it cannot fill the socket's queue.
        """
        if path != SOCKET or not stat.S_ISSOCK(mode) or calling_pid() != os.getpid():
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self._has_socket = True
        return 0

    def readdir(self, path: str, fh: Any) -> list[str]:
        """List a directory."""
        return [".", "..", *self._engine.names(self._directory(path))]

    def opendir(self, path: str) -> int:
        """Note a directory that somebody lists. Only for a thread that may write, as open()."""
        check_writer(calling_pid())
        handle = self._next
        self._next += 1
        self._listed[handle] = time.monotonic()
        return handle

    def releasedir(self, path: str, fh: int) -> int:
        """Forget a directory that was listed."""
        self._listed.pop(fh, None)
        self._may_leave()
        return 0

    def open(self, path: str, fi: Any) -> int:
        """Open a node for direct reads and writes: nothing of it is cached by the kernel.

        Only for a thread that may write: root of a container that sees the tree is root to its file modes.
        """
        check_writer(calling_pid())
        node = self._engine.lookup(path)
        if node.directory:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        with self._lock:
            if len(self._open) >= MAX_OPEN:
                raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
            handle = self._next
            self._next += 1
            self._open[handle] = OpenFile(node)
        fi.fh = handle
        fi.direct_io = True
        return 0

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:
        """Read a part. A read from the start takes the text anew, as with procfs."""
        opened = self._file(fi)
        if opened.why:
            return opened.why[offset : offset + size]
        if offset == 0 or opened.text is None:
            opened.text = self._engine.read(opened.node)
        return opened.text[offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, fi: Any) -> int:
        """Make one write: the offset says nothing, each write stands for itself."""
        # Asked again here: an open descriptor may have been passed on.
        check_writer(calling_pid())
        opened = self._file(fi)
        opened.why = b""
        try:
            # Cards that do not answer can be promised to no container. A container may still be removed.
            if path == CONTROL and not data.lstrip().startswith(b"destroy") and self._engine.driver_error():
                raise RefusedWriteError(errno.EIO, NO_ANSWER)
            self._engine.write(opened.node, data)
        except RefusedWriteError as error:
            opened.why = error.why.encode()
            raise
        opened.text = None
        self._engine.kick()
        if path == CONTROL:
            self._registered()
        return len(data)

    def truncate(self, path: str, length: int, fh: Any = None) -> int:
        """Accept the truncation that the shell's > makes before it writes."""
        self._engine.lookup(path)
        check_writer(calling_pid())
        return 0

    def release(self, path: str, fi: Any) -> int:
        """Forget an open node."""
        with self._lock:
            self._open.pop(int(fi.fh), None)
        self._may_leave()
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        """Answer df: nothing is stored here."""
        return {"f_bsize": 4096, "f_namemax": 255}

    def _refuse(self, *_: object) -> int:
        """Refuse: the engine alone makes, changes and removes entries.

        Without a method the kernel would say that the file system lacks the function.
        """
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    create = mkdir = symlink = link = rename = unlink = rmdir = _refuse
    chmod = chown = utimens = _refuse

    def _directory(self, path: str) -> Node:
        node = self._engine.lookup(path)
        if not node.directory:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return node

    def _file(self, fi: Any) -> OpenFile:
        with self._lock:
            opened = self._open.get(int(fi.fh))
        if opened is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return opened


class TreeMount:
    """The mounted tree, served by a thread of its own."""

    def __init__(self, tree: TreeFs, path: str, beside: str) -> None:
        """Prepare; nothing is mounted yet. beside: where it is mounted until it appears at path."""
        self._tree = tree
        self._path = path
        self._beside = beside
        self._connection = -1
        self._thread = threading.Thread(target=self._serve, name="cgpud-tree", daemon=True)
        self._error: Exception | None = None
        self._changes: mounts.Changes | None = None
        self._lost = threading.Event()

    def start(self) -> None:
        """Mount it beside its path. Raises CgpuError."""
        mounts.clear_fuse(self._beside)
        _make(self._beside)
        before = connections()
        self._thread.start()
        if not self._tree.ready.wait(READY_S):
            reason = self._error or "the kernel did not answer"
            raise CgpuError(f"{self._path}: the tree cannot be mounted: {reason}; it takes /dev/fuse")
        self._connection = (connections() - before).pop()

    def appear(self, *, covers: bool) -> None:
        """Appear at the path, over leftovers of a daemon that died. Raises CgpuError, OSError.

        covers: another tree is there that still has requests.
        """
        if not covers:
            mounts.clear_fuse(self._path)
            _make(self._path)
        changes = mounts.Changes()
        mounts.bind(self._beside, self._path)
        mounts.remove(self._beside)
        # A path through a link is not in the kernel's list of mounts.
        self._changes = changes if mounts.is_fuse(self._path) else None

    def is_lost(self) -> bool:
        """Tell whether somebody has unmounted it.

        The listeners' socket in it keeps a mount that is out of reach alive, and so the thread below.
        """
        if self._lost.is_set():
            return True
        return self._changes is not None and self._changes.any() and not mounts.is_fuse(self._path)

    def leave(self) -> int:
        """Serve no more, and return the mount's connection: the caller's. What is asked from now on waits.

        Between two operations: each gets its answer. Nodes that stay open are given a moment. Raises OSError.
        """
        kept = os.dup(self._connection)
        self._tree.leave(LEAVE_S)
        # The thread leaves in an operation. Whoever asks for it too late gets no answer here.
        threading.Thread(target=self._ask, name="cgpud-asks", daemon=True).start()
        self._thread.join(LAST_S)
        return kept

    def _ask(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                os.stat(f"{self._path}/version")
                time.sleep(ASK_S)

    def stop(self) -> None:
        """Unmount; pending reads and open descriptors get an error at once."""
        for path in (self._beside, self._path):
            # Force it: the thread below would else serve the tree for as long as a process has it open.
            mounts.clear_fuse(path, force=True)
        if self._thread.ident is not None:
            self._thread.join(READY_S)
        for path in (self._beside, self._path):
            mounts.remove(path)

    def _serve(self) -> None:
        options = {
            "fsname": FS_NAME,
            "allow_other": True,
            "default_permissions": True,
            "nosuid": True,
            "nodev": True,
            "noexec": True,
            "attr_timeout": ATTRIBUTES_S,
            "entry_timeout": 0,
            "negative_timeout": 0,
        }
        try:
            mfusepy.FUSE(self._tree, self._beside, raw_fi=True, foreground=True, nothreads=True, **options)
        except RuntimeError as error:
            self._error = error
        finally:
            self._lost.set()


def _make(path: str) -> None:
    """Make a mountpoint. Raises CgpuError."""
    try:
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise CgpuError(f"{path}: cannot be made: {error.strerror}") from error
