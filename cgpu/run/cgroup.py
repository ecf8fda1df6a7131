# SPDX-License-Identifier: Apache-2.0
"""The group of one slice: a directory in each cgroup hierarchy, which tells the engine who belongs to it.

The group comes to lie below the caller's own, so that limits of the caller's service or session hold for the
command too, and its end ends the command. Where a user may write to one of the groups on the way (a delegated
subtree), the group is made above that: that user could move the command out of its slice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.tree.mounts import unescape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The hierarchies of version 1 that the engines look at. Container runtimes make groups in them too.
CONTROLLERS = frozenset({"pids", "devices", "freezer", "memory"})
ROOT = PurePosixPath("/")
OTHERS_MAY = stat.S_IWGRP | stat.S_IWOTH
PREFIX = "cgpu-"
OURS = re.compile(r"cgpu-run-[0-9a-f]{8}", re.ASCII)
TRIES = 10
END_S = 10.0  # for killed processes to be gone
PAUSE_S = 0.01
PROCS = "cgroup.procs"
# Programs open its files by their names. A user who could open the directory could lock it, and keep root
# waiting.
GROUP_MODE = 0o711
MAX_PROCS = 4 << 20
# Files of a group that kill all its processes, or keep it from growing while they are killed. Which of them
# exist depends on the cgroup version and the kernel; the loop below works without them.
END_FILES = (("cgroup.kill", "1"), ("pids.max", "0"))


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """mount: where one hierarchy is mounted. own: the caller's group, below it."""

    mount: Path
    own: PurePosixPath


def find(cgroups: str, mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies to use, out of the texts of /proc/self/cgroup and /proc/self/mountinfo.

    Raises CgpuError when there is none, or when the caller's own place in one is not visible.
    """
    known = list(mounts(mountinfo))
    found = []
    for controllers, group in _memberships(cgroups):
        kind = "cgroup" if controllers else "cgroup2"
        shown = [(root, mount) for of, options, root, mount in known if of == kind and controllers <= options]
        if shown:
            found.append(_visible(group, shown))
    if not found:
        wanted = ", ".join(sorted(CONTROLLERS))
        raise CgpuError(
            f"no cgroup hierarchy is mounted; expected version 2, and of version 1 any of {wanted}: "
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup"
        )
    return found


def parent(hierarchy: Hierarchy) -> Path:
    """Return the deepest group on the way to the caller's own that only root can write to, with all above it.

    Raises CgpuError when that is not even the first, or when it cannot be looked at.
    """
    path = hierarchy.mount
    if not _is_roots(path):
        raise CgpuError(
            f"{path}: not only root may write there; expected a hierarchy that only root can write"
        )
    for name in hierarchy.own.parts[1:]:
        if not _is_roots(path / name):
            break
        path /= name
    return path


def _memberships(cgroups: str) -> Iterator[tuple[frozenset[str], PurePosixPath]]:
    # A user may give a group any name but with "\n": splitlines() would cut at what else ends a line.
    for line in cgroups.split("\n"):
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        controllers = frozenset(filter(None, names.split(",")))
        if (number == "0" and not controllers) or controllers & CONTROLLERS:
            yield controllers, PurePosixPath(path)


def mounts(mountinfo: str) -> Iterator[tuple[str, frozenset[str], PurePosixPath, Path]]:
    """Yield each cgroup mount's file system, its options, its part of a hierarchy, and its place."""
    for line in mountinfo.split("\n"):
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) > 4 and len(kinds) > 2 and kinds[0] in ("cgroup", "cgroup2"):
            options = frozenset(kinds[2].split(","))
            yield kinds[0], options, PurePosixPath(unescape(fields[3])), Path(unescape(fields[4]))


def _visible(group: PurePosixPath, shown: Sequence[tuple[PurePosixPath, Path]]) -> Hierarchy:
    """Return the first of the mounts of a hierarchy that shows a group; each comes with its root."""
    for root, mount in shown:
        if group.is_relative_to(root) and ".." not in group.parts:
            return Hierarchy(mount, ROOT / group.relative_to(root))
    root, mount = shown[0]
    raise CgpuError(
        f"{mount}: shows {root} of its hierarchy, and this process is in {group}; expected a place where "
        "both can be seen: run it on the host, outside of containers"
    )


def _is_roots(group: Path) -> bool:
    """Tell whether only root can move processes in or out of a group."""
    try:
        looked_at = [group.lstat(), (group / PROCS).lstat()]
        tasks = group / "tasks"  # of version 1
        if tasks.exists():
            looked_at.append(tasks.lstat())
    except OSError as error:
        raise CgpuError(
            f"{group}: cannot be looked at ({error.strerror}); expected a mounted cgroup hierarchy"
        ) from error
    return all(status.st_uid == 0 and not status.st_mode & OTHERS_MAY for status in looked_at)


class Group:
    """One group. Its maker keeps its directories locked: sweep() removes those without a lock."""

    def __init__(self) -> None:
        self._locked: list[tuple[Path, int]] = []

    @property
    def paths(self) -> list[Path]:
        """Directories, one in each hierarchy."""
        return [path for path, _ in self._locked]

    def make(self, container: str, parents: Sequence[Path]) -> None:
        """Make the directories, after those that killed runs left were taken away. Raises CgpuError."""
        for parent in parents:
            sweep(parent)
            path = parent / (PREFIX + container)
            try:
                self._locked.append((path, _make_locked(path)))
            except OSError as error:
                raise CgpuError(
                    f"{path}: the cgroup cannot be made ({error.strerror}); expected a cgroup "
                    "hierarchy that root can write to"
                ) from error

    def add(self, pid: int) -> None:
        """Move a process in. Raises CgpuError."""
        for path in self.paths:
            try:
                _write(path / PROCS, str(pid))
            except OSError as error:
                raise CgpuError(
                    f"{path}: process {pid} cannot be put into this cgroup ({error.strerror}); start from "
                    "another cgroup"
                ) from error

    def kill(self) -> None:
        """Kill everything in the group and wait until it is gone, for a while."""
        for path in self.paths:
            for name, value in END_FILES:
                with contextlib.suppress(OSError):
                    _write(path / name, value)
        deadline = time.monotonic() + END_S
        while self._kill_once() and time.monotonic() < deadline:
            time.sleep(PAUSE_S)

    def remove(self) -> list[str]:
        """Take the directories away. Returns a line for each that stays because a process does not end."""
        deadline = time.monotonic() + END_S
        left = []
        for path, fd in self._locked:
            while not _remove_all(path) and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
            if path.exists():
                left.append(f"{path}: a process in it does not end; the next cgpu run takes the cgroup away")
            os.close(fd)
        self._locked = []
        return left

    def _kill_once(self) -> bool:
        """Kill what is listed now; tell whether that was anything."""
        handles = {}
        for pid in self._pids():
            with contextlib.suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
        # A number may have gone to another process before it was opened. That process is not listed.
        for pid in self._pids() & handles.keys():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
        for handle in handles.values():
            os.close(handle)
        return bool(handles)

    def _pids(self) -> set[int]:
        return {pid for path in self.paths for pid in _pids_below(path)}


def sweep(parent: Path) -> None:
    """Remove what killed runs have left in a group: empty directories that no process has locked."""
    with contextlib.suppress(OSError):
        for path in parent.iterdir():
            if OURS.fullmatch(path.name):
                _sweep_one(path)


def _sweep_one(path: Path) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_all(path)
        finally:
            os.close(fd)


def _make_locked(path: Path) -> int:
    """Make a directory and lock it; return the lock. Raises OSError."""
    for _ in range(TRIES):
        path.mkdir(mode=GROUP_MODE)
        fd = _lock(path)
        if fd is not None:
            return fd
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _lock(path: Path) -> int | None:
    """Lock a directory; None when another run has swept it away before that. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(fd, fcntl.LOCK_EX)
    if path.exists():
        return fd
    os.close(fd)
    return None


def _pids_below(path: Path) -> Iterator[int]:
    for directory, _, _ in os.walk(path):
        with contextlib.suppress(OSError), open(os.path.join(directory, PROCS), "rb") as stream:
            yield from (
                int(word) for word in stream.read(MAX_PROCS).split() if word.isdigit() and word != b"0"
            )


def _remove_all(path: Path) -> bool:
    """Remove a group and those below it; tell whether nothing is left."""
    for directory, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)
    return not path.exists()


def _write(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)
