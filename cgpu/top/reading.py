# SPDX-License-Identifier: Apache-2.0
"""One reading of the node: cgpu-smi's sample of the tree, and the counters of the same moment."""

from __future__ import annotations

import pwd
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from cgpu.client.stat import GpuStat
from cgpu.client.tree import Tree
from cgpu.files import read_bounded
from cgpu.smi.collect import known, sample
from cgpu.smi.model import Container, Gpu
from cgpu.smi.names import SHORT_WAIT_S, Directory

MAX_COMM = 64


@dataclass(frozen=True, slots=True)
class Key:
    """Which slice: GPU, directory in the tree, and the whole id of the container."""

    gpu: int
    directory: str
    id: str


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds memory in a slice. None: not known."""

    pid: int
    held: int | None
    user: str | None
    command: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the node."""

    at: float
    """Seconds of the monotonic clock."""
    gpus: tuple[Gpu, ...]
    stats: Mapping[int, GpuStat] = field(default_factory=dict)
    """By the GPU's index; none where the engine has none, or this user may not read them."""
    engine: str = ""
    """Name and version of the engine, where this user may know."""
    starts: tuple[int, int] | None = None
    """How often an engine started with this state, or took over from another."""
    measured: bool = False
    """The utilisation of each container is in the sample already."""
    watched: tuple[Process, ...] = ()
    """Processes of the slice that was asked for."""


Read = Callable[[Key | None], Reading]
"""Reads now; the processes of one slice besides. Raises CgpuError."""


def key(gpu: Gpu, container: Container) -> Key:
    """Return which slice a container's is."""
    return Key(gpu.index, container.directory, container.id)


def of_tree(tree: Callable[[], Tree], chosen: Callable[[tuple[Gpu, ...]], tuple[Gpu, ...]]) -> Read:
    """Return a reader of the tree, which is looked for at each reading. chosen: which GPUs are wanted."""
    names = Directory(wait_s=SHORT_WAIT_S)

    def read(watched: Key | None) -> Reading:
        at = tree()
        gpus = names.named(chosen(sample(at)))
        stats = {gpu.index: known(partial(at.gpu_stat, gpu.index)) for gpu in gpus}
        engine = known(at.engine_stat)
        return Reading(
            time.monotonic(),
            gpus,
            {index: stat for index, stat in stats.items() if stat is not None},
            " ".join((known(at.read, "engine") or "").split(" ")[:2]),
            None if engine is None else (engine.restarts, engine.upgrades),
            watched=() if watched is None else tuple(map(process, held(gpus, watched))),
        )

    return read


def of_published(published: Callable[[], tuple[Gpu, ...]]) -> Read:
    """Return a reader of what root publishes to this user."""

    def read(watched: Key | None) -> Reading:
        gpus = published()
        pids = [pid for gpu in gpus for one in gpu.containers if key(gpu, one) == watched for pid in one.pids]
        return Reading(
            time.monotonic(), gpus, measured=True, watched=tuple(process((pid, None)) for pid in pids)
        )

    return read


def held(gpus: tuple[Gpu, ...], watched: Key) -> list[tuple[int, int]]:
    """Return the processes of a slice, the one that holds most first."""
    found = [
        (one.pid, one.memory)
        for gpu in gpus
        for container in gpu.containers
        if key(gpu, container) == watched
        for one in container.processes
    ]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def process(found: tuple[int, int | None], proc: str = "/proc") -> Process:
    """Return what is known of a process.

    Its command line lies in its own memory, where a hostile process can have a reader wait: it is not shown.
    """
    pid, size = found
    try:
        command = read_bounded(f"{proc}/{pid}/comm", MAX_COMM).decode("utf-8", "replace").removesuffix("\n")
        status = read_bounded(f"{proc}/{pid}/status", 1 << 16).decode("utf-8", "replace").split("\n")
        uid = next(int(line.split()[1]) for line in status if line.startswith("Uid:"))
    except (OSError, ValueError, StopIteration):
        return Process(pid, size, None, None)
    return Process(pid, size, _user(uid), command)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
