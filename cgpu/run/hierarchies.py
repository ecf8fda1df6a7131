# SPDX-License-Identifier: Apache-2.0
"""Where in the cgroup hierarchies a group for a slice is made: version 2, version 1, or both (hybrid).

The group comes to lie below the caller's own, so that limits of the caller's service or session hold for the
command too, and its end ends the command. Where a user may write to one of the groups on the way (a delegated
subtree), the group is made above that: who may write there could move the command out of its slice.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.mounts import unescape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The hierarchies of version 1 that the engines look at. Container runtimes make groups in them too.
CONTROLLERS = frozenset({"pids", "devices", "freezer", "memory"})
MEMBERS = ("cgroup.procs", "tasks")
ROOT = PurePosixPath("/")
OTHERS_MAY = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """mount: where one hierarchy is mounted. own: the caller's group, below it."""

    mount: Path
    own: PurePosixPath


def find(cgroups: str, mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies to use, out of the texts of /proc/self/cgroup and /proc/self/mountinfo.

    Raises CgpuError when there is none, or when the caller's own place in one is not visible.
    """
    mounts = list(_mounts(mountinfo))
    found = []
    for controllers, group in _memberships(cgroups):
        kind = "cgroup" if controllers else "cgroup2"
        shown = [
            (root, mount) for of, options, root, mount in mounts if of == kind and controllers <= options
        ]
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
    for line in cgroups.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        controllers = frozenset(filter(None, names.split(",")))
        if (number == "0" and not controllers) or controllers & CONTROLLERS:
            yield controllers, PurePosixPath(path)


def _mounts(mountinfo: str) -> Iterator[tuple[str, frozenset[str], PurePosixPath, Path]]:
    for line in mountinfo.splitlines():
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
        looked_at = [group.lstat(), (group / MEMBERS[0]).lstat()]
        tasks = group / MEMBERS[1]
        if tasks.exists():
            looked_at.append(tasks.lstat())
    except OSError as error:
        raise CgpuError(
            f"{group}: cannot be looked at ({error.strerror}); expected a mounted cgroup hierarchy"
        ) from error
    return all(status.st_uid == 0 and not status.st_mode & OTHERS_MAY for status in looked_at)
