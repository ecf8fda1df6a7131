# SPDX-License-Identifier: Apache-2.0
"""Reading the tree: the GPUs and the containers with slices of them. An entry that reads wrong is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TypeVar

from cgpu.client import left, reservations
from cgpu.client.policies import Policy
from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError
from cgpu.slice import ATTRIBUTES
from cgpu.smi.counters import with_counters
from cgpu.smi.limits import with_limits
from cgpu.smi.model import Container, Gpu, Process
from cgpu.smi.scheduling import is_number, parse

Value = TypeVar("Value")
Memory = tuple[int | None, tuple[int, ...]]
Held = tuple[tuple[int, int], ...]
"""Processes, and the bytes that each holds."""


def sample(tree: Tree) -> tuple[Gpu, ...]:
    """Read every GPU, in order. Raises EngineDownError; CgpuError when the tree cannot be listed."""
    tree.read("version")  # an engine that died may leave an empty directory
    rules = known(tree.policies) or {}
    return tuple(with_limits(gpu(tree, str(index), rules)) for index in tree.indexes())


def gpu(tree: Tree, index: str, rules: Mapping[int, Policy]) -> Gpu:
    """Read one GPU directory. Raises CgpuError when it cannot be listed."""
    found = containers(tree, index)
    counters, read_at = known(tree.gpu_stat, int(index)), monotonic()
    policy = known(tree.read_int, index, "policy")
    read = Gpu(
        index=int(index),
        uuid=known(tree.read, index, "uuid") or None,
        model=known(tree.read, index, "name") or None,
        policy=policy,
        max_inst=known(tree.read_int, index, "max_inst"),
        prio_ratio=known(tree.read_int, index, "prio_ratio"),
        total=known(tree.read_int, index, "memtotal"),
        containers=found,
        scheduling=parse(known(tree.read, index, "sched") or ""),
        rule=None if policy is None else rules.get(policy),
        reserved=reserved(known(tree.read, index, "reserved") or "", found),
        left=left_behind(known(tree.read, index, "left") or ""),
        minor=known(tree.read_int, index, "minor"),
        read_at=read_at,
    )
    return with_counters(read, counters)


def reserved(text: str, containers: tuple[Container, ...]) -> int:
    """Return the bytes that are promised to shares beyond what containers have; 0 where they read wrong."""
    slices = {one.directory: one.allocated or 0 for one in containers}
    try:
        return reservations.beyond(slices, reservations.parse(text))
    except CgpuError:
        return 0


def left_behind(text: str) -> tuple[tuple[str, int], ...]:
    """Return removed containers and what the driver still has for them; none where they read wrong."""
    try:
        return tuple(left.parse(text).items())
    except CgpuError:
        return ()


def known(read: Callable[..., Value], *node: str | int) -> Value | None:
    """Return what a reader of the tree says of a node; None where that is not there or reads wrong.

    Raises EngineDownError.
    """
    try:
        return read(*node)
    except EngineDownError:
        raise
    except CgpuError:
        return None


def containers(tree: Tree, index: str) -> tuple[Container, ...]:
    """Read the containers on a GPU, sorted by id, without those that stop meanwhile. Raises CgpuError."""
    found = [container(tree, index, name) for name in tree.containers(int(index))]
    # A container that stops takes its directory along, between two reads too: its reading is dropped. A newer
    # engine may have a node here.
    return tuple(one for one in found if known(tree.names, index, one.directory) is not None)


def container(tree: Tree, index: str, name: str) -> Container:
    """Read one container directory. Raises EngineDownError."""

    def number(node: str) -> int | None:
        return known(tree.read_int, index, name, node)

    engine_time, read_at = number("usage"), monotonic()
    values = {one.name: number(one.name) for one in ATTRIBUTES}
    allocated = values["memsize"]
    free, held = by_process(known(tree.read, index, name, "meminfo") or "")
    owner, _, group = (known(tree.read, index, name, "owner") or "").partition(" ")
    return Container(
        directory=name,
        id=owner or name,
        group=group or None,
        slice=values,
        used=None if allocated is None or free is None else max(0, allocated - free),
        pids=tuple(pid for pid, _ in held),
        engine_time=engine_time,
        read_at=read_at,
        processes=tuple(Process(pid, size) for pid, size in held),
    )


def memory(meminfo: str) -> Memory:
    """Return free bytes and the processes that hold memory; None and none when the entry reads wrong."""
    free, held = by_process(meminfo)
    return free, tuple(pid for pid, _ in held)


def by_process(meminfo: str) -> tuple[int | None, Held]:
    """Return free bytes and what each process holds; None and none when the entry reads wrong."""
    free, held = None, []
    for line in meminfo.splitlines():
        match line.split():
            case ["Free:", size] if is_number(size):
                free = int(size)
            case ["PID:", pid, "Mem:", size] if is_number(pid) and is_number(size):
                held.append((int(pid), int(size)))
            case _:
                return None, ()
    return (None, ()) if free is None else (free, tuple(held))
