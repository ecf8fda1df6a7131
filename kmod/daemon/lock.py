# SPDX-License-Identifier: Apache-2.0
"""One daemon on a node: two files name its keeper and itself, and no other starts while one of them lives.

No lock of the kernel's: root of a container that sees such a file, also read-only, would have it as soon as a
daemon dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from cgpu import process_identity
from cgpu.errors import CgpuError
from cgpu.replace import replace_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cgpu.kmod.daemon.places import Places

FOLDER_S = 1.0  # for another daemon that starts just now
STEP_S = 0.01


class HeldError(CgpuError):
    """Another process is the daemon, or its keeper; pid is its process id."""

    def __init__(self, path: Path, pid: int) -> None:
        """Name that process, and the file that names it."""
        super().__init__(f"cgpud already runs as process {pid} ({path}); stop it with: cgpud --stop")
        self.pid = pid
        self.path = path


def become_keeper(places: Places) -> None:
    """Sign as the keeper, or as a daemon that has none. Raises HeldError, CgpuError."""
    with _alone(places.run):
        for path in (places.lock, places.started):
            _check_free(path)
        sign(places.lock)


def become_daemon(places: Places) -> None:
    """Sign as the daemon: of the keeper that has started this process. Raises HeldError, CgpuError."""
    with _alone(places.run):
        # A keeper that died meanwhile may have been followed by another, which knows nothing of this process.
        if process_identity.read(places.lock).pid not in (os.getpid(), os.getppid()):
            _check_free(places.lock)
        sign(places.started)


def sign(path: Path) -> None:
    """Name this process in a file. Raises CgpuError."""
    try:
        replace_text(path, process_identity.own().text())
    except OSError as error:
        raise CgpuError(f"{path}: cannot be written: {error.strerror}; cgpud runs as root") from error


def _check_free(path: Path) -> None:
    # A killed process whose threads cannot end does not live: it does nothing any more.
    holder = process_identity.read(path)
    if holder.lives():
        raise HeldError(path, holder.pid)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one daemon at a time look and sign, but wait for no container that has locked the folder, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + FOLDER_S
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(STEP_S)
        yield
    finally:
        os.close(fd)
