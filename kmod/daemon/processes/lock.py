# SPDX-License-Identifier: Apache-2.0
"""One daemon on a node: a lock that the kernel drops with its holder; one that cannot end loses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.process_identity import is_unkillable

if TYPE_CHECKING:
    from pathlib import Path

    from cgpu.kmod.daemon.processes.process_identity import ProcessIdentity

SIGN_S = 1.0  # for a daemon that has just taken the lock to sign the file
STEP_S = 0.01


class HeldError(CgpuError):
    """Another process holds the lock; pid is its process id as far as it is known, else 0."""

    def __init__(self, path: Path, pid: int) -> None:
        """Name the process that holds the lock."""
        self.pid = pid
        super().__init__(f"cgpud already runs as process {pid or '?'} ({path}); stop it with: cgpud --stop")
        self.path = path


def _lock_in_time(folder: int) -> None:
    """Lock a folder, if no other process has it for long: root of a container can have it, too."""
    deadline = time.monotonic() + SIGN_S
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(STEP_S)


def sign(fd: int, holder: ProcessIdentity) -> None:
    """Write the holder's identity into a lock file."""
    os.ftruncate(fd, 0)
    os.pwrite(fd, holder.text().encode(), 0)


def signer(fd: int) -> ProcessIdentity:
    """Return the process that has signed a lock file."""
    return process_identity.parse(os.pread(fd, process_identity.MAX_BYTES, 0))


class Lock:
    """A lock file that names its holder."""

    def __init__(self, path: Path, daemon: Path | None = None) -> None:
        """Take the lock. Raises HeldError, CgpuError.

        daemon: the file that names the daemon's process.
        """
        self._daemon = daemon
        self._fd = self._open(path)
        try:
            if not self._try_in_time(path):
                pid = self._break(path)
                if pid is not None:
                    raise HeldError(path, pid)
        except BaseException:
            os.close(self._fd)
            raise
        self.sign()

    def fileno(self) -> int:
        """A descriptor that holds the lock for as long as any copy of it is open."""
        return self._fd

    def sign(self) -> None:
        """Write this process's identity into the file, after a fork."""
        sign(self._fd, process_identity.own())

    def release(self) -> None:
        """Let it go."""
        os.close(self._fd)

    def _open(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise CgpuError(f"{path}: cannot be opened: {error.strerror}; cgpud runs as root") from error

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _try_in_time(self, path: Path) -> bool:
        """Try until a daemon that has just taken the lock has signed the file, or one that ends has ended.

        Raises HeldError where a daemon lives.
        """
        deadline = time.monotonic() + SIGN_S
        while not self._try():
            holder = self._living_holder()
            if holder is not None:
                raise HeldError(path, holder.pid)
            if is_unkillable(signer(self._fd)) or self._is_killed_daemon() or time.monotonic() > deadline:
                return False
            time.sleep(STEP_S)
            # A keeper takes the file away at its end.
            self._take(self._open(path))
        return True

    def _living_holder(self) -> ProcessIdentity | None:
        """Return the keeper that has signed the file, or the daemon, which has a copy of the lock."""
        named = [signer(self._fd)]
        if self._daemon is not None:
            named.append(process_identity.read(self._daemon))
        return None if self._is_killed_daemon() else next((one for one in named if one.lives()), None)

    def _break(self, path: Path) -> int | None:
        """Put another file in its place. Returns the holder where another daemon has been faster.

        The holder cannot end, or is no daemon: root of a container that sees the file, also read-only, has
        the lock as soon as a daemon dies.
        """
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Daemons come one at a time: the second one finds the file of the first.
            _lock_in_time(folder)
            return self._replace(path, folder)
        finally:
            os.close(folder)

    def _replace(self, path: Path, folder: int) -> int | None:
        # The file has no name before it is locked: nobody can be faster.
        fresh = os.open(path.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        fcntl.flock(fresh, fcntl.LOCK_EX)
        sign(fresh, process_identity.own())
        held, found = os.fstat(self._fd), path.stat()
        if (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino):
            path.unlink()
        try:
            # Python follows the link only where a folder is given (linkat(2)).
            os.link(f"/proc/self/fd/{fresh}", path.name, dst_dir_fd=folder)
        except FileExistsError:
            os.close(fresh)
            return process_identity.read(path).pid
        self._take(fresh)
        return None

    def _take(self, fd: int) -> None:
        """Have another file in the place of the one that is open."""
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)

    def _is_killed_daemon(self) -> bool:
        """Tell of a daemon whose keeper is dead, and had the lock."""
        return self._daemon is not None and is_unkillable(process_identity.read(self._daemon))
