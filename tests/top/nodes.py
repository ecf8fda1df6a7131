# SPDX-License-Identifier: Apache-2.0
"""Made-up readings of a node."""

from __future__ import annotations

import threading
from dataclasses import replace

from cgpu.client.stat import GpuStat, parse_gpu
from cgpu.errors import CgpuError
from cgpu.smi.limits import with_limits
from cgpu.smi.model import Container, Gpu
from cgpu.smi.scheduling import parse
from cgpu.top.reading import Key, Process, Reading
from tests.exporter.trees import gpu_line, slice_line
from tests.policies import policies

MIB = 1 << 20
SECOND = 1_000_000_000
SCHED = "divided_by=time_slices usage_from=gates resolution=50000 slice=2000000"
TRAINER, WEB, POD = "a" * 64, "web", "b" * 64
NAMES = {TRAINER: "trainer", WEB: None, POD: "research/notebook-7f9c4/main"}


def container(
    of: str, *, used: int = 0, size: int = 6043, time: int = 0, at: float = 0.0, weight: int = 1
) -> Container:
    """Return a slice; sizes in MiB."""
    directory = of[:12] if len(of) == 64 else of
    return Container(
        directory,
        of,
        {"memsize": size * MIB, "weight": weight, "highprio": 0},
        used * MIB,
        (4711, 4712) if used else (),
        time,
        at,
        name=NAMES.get(of),
    )


def gpu(index: int, *containers: Container) -> Gpu:
    uuid = f"GPU-0000000{index}-1111-2222-3333-444444444444"
    made = Gpu(index, uuid, "Tesla T4", 1, 20, 80, 15109 * MIB, containers, parse(SCHED), policies()[1])
    return with_limits(made)


def gpu_stat(card: Gpu, **slices: dict[str, int]) -> GpuStat:
    """Return the counters of a GPU. slices: other figures, by the id of a container."""
    usage = sum(one.engine_time or 0 for one in card.containers)
    memory = sum(one.used or 0 for one in card.containers)
    lines = [gpu_line(card.uuid or "", policy=1, used=memory, usage=usage)]
    for one in card.containers:
        used = one.used or 0
        known = {"used": used, "peak": used + 512 * MIB, "usage": one.engine_time or 0}
        lines.append(slice_line(one.id, **known, **slices.get(one.id, {})))
    return parse_gpu("\n".join(lines))


def reading(at: float, *gpus: Gpu, **slices: dict[str, int]) -> Reading:
    stats = {one.index: gpu_stat(one, **slices) for one in gpus}
    return Reading(at, gpus, stats, "cgpud 0.1.0", (0, 0))


def node(at: float, **slices: dict[str, int]) -> Reading:
    """Return two cards: the trainer has a quarter of the first one's time, the pod a half; WEB is idle."""
    ran = round(at * SECOND)
    first = gpu(
        0,
        container(TRAINER, used=2417, time=ran // 4, at=at),
        container(POD, used=3000, size=4000, time=ran // 2, at=at, weight=2),
        container(WEB, at=at, size=1000),
    )
    return reading(at, first, gpu(1), **slices)


class Node:
    """A node that is read as time goes on: one second for each reading."""

    def __init__(self, *, hostile: str | None = None) -> None:
        self.at = 0.0
        self.hostile = hostile
        self.down: str | None = None
        self.starts = (0, 0)
        self.gone: set[str] = set()
        self.watched: list[Key | None] = []
        self.stuck = threading.Event()
        """Cleared, a reading waits, as of an engine that does not answer."""
        self.stuck.set()

    def __call__(self, watched: Key | None) -> Reading:
        self.stuck.wait()
        self.watched.append(watched)
        if self.down is not None:
            raise CgpuError(self.down)
        self.at += 1.0
        found = node(self.at)
        gpus = tuple(replace(one, containers=tuple(map(self._named, self._left(one)))) for one in found.gpus)
        processes = (Process(4711, 2000 * MIB, "root", "train"),) if watched is not None else ()
        return replace(found, gpus=gpus, starts=self.starts, watched=processes)

    def _left(self, one: Gpu) -> list[Container]:
        return [found for found in one.containers if found.id not in self.gone]

    def _named(self, one: Container) -> Container:
        return replace(one, name=self.hostile) if self.hostile is not None and one.id == TRAINER else one
