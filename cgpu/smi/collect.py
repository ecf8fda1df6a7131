# SPDX-License-Identifier: Apache-2.0
"""Reading the tree: the GPUs and the containers with slices of them. An entry that reads wrong is None."""

from __future__ import annotations

from time import monotonic

from cgpu.client.tree import EngineDownError, Tree, is_index
from cgpu.errors import CgpuError
from cgpu.smi.limits import with_limits
from cgpu.smi.model import Container, Gpu
from cgpu.smi.scheduling import is_number, parse

Memory = tuple[int | None, tuple[int, ...]]


def sample(tree: Tree) -> tuple[Gpu, ...]:
    """Read every GPU, in order. Raises EngineDownError; CgpuError when the tree cannot be listed."""
    tree.read("version")  # an engine that died may leave an empty directory
    indexes = sorted(int(name) for name in tree.names() if is_index(name))
    return tuple(with_limits(gpu(tree, str(index))) for index in indexes)


def gpu(tree: Tree, index: str) -> Gpu:
    """Read one GPU directory. Raises CgpuError when it cannot be listed."""
    return Gpu(
        index=int(index),
        uuid=text(tree, index, "uuid"),
        model=text(tree, index, "name"),
        policy=number(tree, index, "policy"),
        max_inst=number(tree, index, "max_inst"),
        prio_ratio=number(tree, index, "prio_ratio"),
        total=number(tree, index, "memtotal"),
        containers=containers(tree, index),
        scheduling=parse(text(tree, index, "sched") or ""),
    )


def text(tree: Tree, *node: str) -> str | None:
    """Read a node; None when it is not there, or empty. Raises EngineDownError."""
    try:
        return tree.read(*node) or None
    except EngineDownError:
        raise
    except CgpuError:
        return None


def number(tree: Tree, *node: str) -> int | None:
    """Read a number; None when the node is not there or holds something else. Raises EngineDownError."""
    try:
        return tree.read_int(*node)
    except EngineDownError:
        raise
    except CgpuError:
        return None


def containers(tree: Tree, index: str) -> tuple[Container, ...]:
    """Read the containers on a GPU, sorted by id, without those that stop meanwhile. Raises CgpuError."""
    found = [container(tree, index, name) for name in tree.containers(int(index))]
    # A container that stops takes its directory along, between two reads too: what was read of it is nothing.
    return tuple(one for one in found if is_directory(tree, index, one.directory))


def is_directory(tree: Tree, *parts: str) -> bool:
    """Say whether it is one still: a container may have stopped, a newer engine may have a node here."""
    try:
        tree.names(*parts)
    except EngineDownError:
        raise
    except CgpuError:
        return False
    return True


def container(tree: Tree, index: str, name: str) -> Container:
    """Read one container directory. Raises EngineDownError."""
    engine_time, read_at = number(tree, index, name, "usage"), monotonic()
    allocated, high_prio = number(tree, index, name, "memsize"), number(tree, index, name, "highprio")
    free, pids = memory(text(tree, index, name, "meminfo") or "")
    return Container(
        directory=name,
        id=((text(tree, index, name, "owner") or "").split() or [name])[0],
        weight=number(tree, index, name, "weight"),
        high_prio=None if high_prio is None else high_prio != 0,
        allocated=allocated,
        used=None if allocated is None or free is None else max(0, allocated - free),
        pids=pids,
        engine_time=engine_time,
        read_at=read_at,
    )


def memory(meminfo: str) -> Memory:
    """Return free bytes and the processes that hold memory; None and none when the entry reads wrong."""
    free, pids = None, []
    for line in meminfo.splitlines():
        match line.split():
            case ["Free:", size] if is_number(size):
                free = int(size)
            case ["PID:", pid, "Mem:", size] if is_number(pid) and is_number(size):
                pids.append(int(pid))
            case _:
                return None, ()
    return (None, ()) if free is None else (free, tuple(pids))
