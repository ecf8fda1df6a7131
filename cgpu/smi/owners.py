# SPDX-License-Identifier: Apache-2.0
"""Which users have processes in which containers."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cgpu.files import read_fd

PROC = "/proc"
MAX_BYTES = 1 << 16
MOST_USERS = 8  # of one container: its root may have processes of any number
Users = dict[str, frozenset[int]]
"""Control group, as the tree's `owner` has it, to the real uids of the processes in it and below."""


def users(groups: frozenset[str], proc: str = PROC) -> Users:
    """Read every process once. A process that ends meanwhile, or cannot be read, is left out.

    A group with many users has those with the smallest numbers.
    """
    found: dict[str, set[int]] = {group: set() for group in groups if names_one(group)}
    for name in os.listdir(proc) if found else ():
        if not (name.isascii() and name.isdigit()):
            continue
        try:
            theirs, uid = _facts(f"{proc}/{name}")
        except (OSError, ValueError, LookupError):
            continue
        for group in _known(theirs, found):
            found[group].add(uid)
    return {group: frozenset(sorted(uids)[:MOST_USERS]) for group, uids in found.items()}


def names_one(group: str) -> bool:
    """Return whether a group is that of a container: neither unknown nor the root of a hierarchy."""
    return len(group.rpartition(":")[2].strip("/")) > 0 and group.rpartition(":")[2].startswith("/")


def _facts(process: str) -> tuple[list[str], int]:
    """Return the groups and the real uid of one and the same process, also if its number is used again."""
    folder = os.open(process, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        groups = list(_groups(_lines(folder, "cgroup")))
        (uid,) = (line.split()[1] for line in _lines(folder, "status") if line.startswith("Uid:"))
    finally:
        os.close(folder)
    return groups, int(uid)


def _lines(folder: int, name: str) -> list[str]:
    # A process and a group may have any name but with "\n": splitlines() would cut at what else ends a line.
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return read_fd(fd, MAX_BYTES).decode("utf-8", "replace").removesuffix("\n").split("\n")
    finally:
        os.close(fd)


def _groups(lines: list[str]) -> Iterator[str]:
    """Give the groups of a process in the engines' forms: the path, in older hierarchies with a name.

    cgpud names such a hierarchy by all of its controllers, the module by one of them.
    """
    for line in lines:
        _, hierarchy, path = line.split(":", 2)
        if not hierarchy:
            yield path
        for name in dict.fromkeys([hierarchy, *hierarchy.split(",")]) if hierarchy else ():
            yield f"{name}:{path}"


def _known(theirs: list[str], known: dict[str, set[int]]) -> Iterator[str]:
    """Give those of the known groups in which a process is, itself or further below."""
    for group in theirs:
        at = group
        while at:
            if at in known:
                yield at
            at = at.rpartition("/")[0]
