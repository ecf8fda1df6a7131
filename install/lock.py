# SPDX-License-Identifier: Apache-2.0
"""One installer at a time.

Commands that the installer runs inherit the lock: while a command of a killed installer still runs, no other
installer undoes its work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.install import places
from cgpu.node_files import below

WAIT_S = 60.0
STEP_S = 0.1


@contextlib.contextmanager
def held(root: Path, say: Callable[[str], None] = lambda _: None, wait: float = WAIT_S) -> Iterator[int]:
    """Have the lock, and give its descriptor. Raises CgpuError when others keep it, or it cannot be made."""
    path = below(root, places.LOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = _acquire(path, say, time.monotonic() + wait)
    except OSError as error:
        raise CgpuError(f"{path}: cannot be locked: {error.strerror}; run it as root") from error
    try:
        yield fd
    finally:
        # A process that waits for it sees that the file is gone, and makes another.
        path.unlink(missing_ok=True)
        os.close(fd)


def _acquire(path: Path, say: Callable[[str], None], deadline: float) -> int:
    said = False
    while True:
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, fd):
                return fd
        except BlockingIOError:
            if not said:
                say("waiting for another cgpu command that changes this node, or for what it has started")
                said = True
            if time.monotonic() > deadline:
                os.close(fd)
                raise CgpuError(
                    f"{path}: another cgpu command changes this node, or one that it has started: "
                    f"fuser -v {path}"
                ) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(STEP_S)


def _open(path: Path) -> int:
    """Return a descriptor of the file; one that is made is locked before it has its name. Raises OSError.

    Root of a container that sees it, also read-only, would else be faster, and keep the lock.
    """
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fd = os.open(path.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                # Python follows the link only where a folder is given (linkat(2)).
                os.link(f"/proc/self/fd/{fd}", path.name, dst_dir_fd=folder)
            except FileExistsError:
                os.close(fd)
                continue
            except BaseException:
                os.close(fd)
                raise
            return fd
        finally:
            os.close(folder)


def _is_there(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
