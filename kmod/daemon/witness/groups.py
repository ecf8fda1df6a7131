# SPDX-License-Identifier: Apache-2.0
"""The cgroups of containers that the witness knows, and their end."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cgpu.process_identity import PROC, cgroup_text, parent_of

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Container

ROOT = Path("/sys/fs/cgroup")


def are_unified(root: Path = ROOT) -> bool:
    """Tell whether the kernel's groups are those of version 2 alone, by which a task is known."""
    return (root / "cgroup.controllers").exists()


@dataclass(frozen=True, slots=True)
class Group:
    """A container's cgroup. fd: its directory, which stays this very group's whatever has its path later."""

    container: Container
    number: int  # by which the kernel knows it
    fd: int


class Groups:
    """Groups by the number of their owner. Any thread may ask."""

    def __init__(self, root: Path = ROOT, proc: Path = PROC) -> None:
        """Begin with none."""
        self._root = root
        self._proc = proc
        self._groups: dict[int, Group] = {}
        self._lock = threading.Lock()

    def keys(self) -> dict[tuple[int, int], int]:
        """Return the owner of each registration."""
        return {group.container.key: owner for owner, group in self._groups.items()}

    def add(self, container: Container, owner: int) -> Group | None:
        """Open a container's group; None: it has none of its own, or that is gone."""
        path = container.cgroup
        if len(path) < 2 or not path.startswith("/") or ".." in path.split("/"):
            return None
        # A container that is in the group of its parent, which has started it, has none of its own.
        if f"0::{path}" in cgroup_text(parent_of(container.pid, self._proc), self._proc).split("\n"):
            return None
        try:
            fd = os.open(f"{self._root}{path}", os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        group = self._groups[owner] = Group(container, os.fstat(fd).st_ino, fd)
        return group

    def remove(self, owner: int) -> Group:
        """Forget a group, whose descriptor is closed."""
        with self._lock:
            group = self._groups.pop(owner)
            os.close(group.fd)
        return group

    def clear(self) -> None:
        """Forget all."""
        for owner in tuple(self._groups):
            self.remove(owner)

    def find(self, owner: int) -> Container | None:
        """Return whose the pages of an owner are."""
        group = self._groups.get(owner)
        return group.container if group is not None else None

    def kill(self, owner: int) -> None:
        """Stop all processes of a group, and of those below, and end them. Raises OSError."""
        with self._lock:
            group = self._groups[owner]
            # No further call ends meanwhile. A kernel without it kills all the same.
            with contextlib.suppress(OSError):
                _write(group.fd, "cgroup.freeze")
            _write(group.fd, "cgroup.kill")


def _write(group: int, name: str) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=group)
    try:
        os.write(fd, b"1")
    finally:
        os.close(fd)
