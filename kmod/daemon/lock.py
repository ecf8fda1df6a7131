# SPDX-License-Identifier: Apache-2.0
"""One daemon on a node: a lock that the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError

if TYPE_CHECKING:
    from pathlib import Path


class HeldError(CgpuError):
    """Another process holds the lock; pid is its process id as far as it is known, else 0."""

    def __init__(self, path: Path, pid: int) -> None:
        """Say who holds it."""
        self.pid = pid
        super().__init__(f"cgpud already runs as process {pid or '?'} ({path}); stop it with: cgpud --stop")
        self.path = path


class Lock:
    """A lock file that names its holder."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises HeldError, CgpuError."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise CgpuError(f"{path}: cannot be opened: {error.strerror}; cgpud runs as root") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            text = os.pread(self._fd, 16, 0)
            os.close(self._fd)
            raise HeldError(path, int(text) if text.strip().isdigit() else 0) from error
        self.sign()

    def fileno(self) -> int:
        """A descriptor that holds the lock for as long as any copy of it is open."""
        return self._fd

    def sign(self) -> None:
        """Write this process's id into it, after a fork."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let it go."""
        os.close(self._fd)
