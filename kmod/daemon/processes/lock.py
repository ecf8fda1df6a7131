# SPDX-License-Identifier: Apache-2.0
"""One daemon on a node: a lock that the kernel drops with its holder; one that cannot end loses it."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.process_identity import is_unkillable

if TYPE_CHECKING:
    from pathlib import Path

    from cgpu.kmod.daemon.processes.process_identity import ProcessIdentity


class HeldError(CgpuError):
    """Another process holds the lock; pid is its process id as far as it is known, else 0."""

    def __init__(self, path: Path, pid: int) -> None:
        """Name the process that holds the lock."""
        self.pid = pid
        super().__init__(f"cgpud already runs as process {pid or '?'} ({path}); stop it with: cgpud --stop")
        self.path = path


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
            if not self._try():
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

    def _break(self, path: Path) -> int | None:
        """Put another file in its place if its holder cannot end. Returns a holder that lives."""
        holder = signer(self._fd)
        if not is_unkillable(holder) and not self._is_killed_daemon():
            return holder.pid if holder.is_meant() else 0
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Daemons come one at a time: the second one finds the file of the first.
            fcntl.flock(folder, fcntl.LOCK_EX)
            held, found = os.fstat(self._fd), path.stat()
            if (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino):
                path.unlink()
            fresh = self._open(path)
            os.dup2(fresh, self._fd, inheritable=False)
            os.close(fresh)
            return None if self._try() else signer(self._fd).pid
        finally:
            os.close(folder)

    def _is_killed_daemon(self) -> bool:
        """Tell of a daemon whose keeper is dead, and had the lock."""
        return self._daemon is not None and is_unkillable(process_identity.read(self._daemon))
