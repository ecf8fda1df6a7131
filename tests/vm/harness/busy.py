# SPDX-License-Identifier: Apache-2.0
"""Containers that keep the card busy, and which part of its time each has had, by the card's own figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.integration.commands import eventually
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Process
from tests.vm.harness.slices import PROBE, Slice

# More work than a test takes: a queue of kernels that can be interrupted anywhere.
WORK = "submit=1000:1000ms"
LOOKS, PAUSE = 2000, 0.2
SPAN = 1.5  # seconds over which a share is measured
SECONDS = 180.0
NS_PER_INSTRUCTION = 8
TOLERANCE = 0.15
# The thread gets no processor but from those who have nothing to do.
STARVE = "for at in /proc/[0-9]*; do [ $(cat $at/comm) != cgpu_turns ] || chrt -i -p 0 ${at#/proc/}; done"
HOG = ["/bin/busybox", "sh", "-c", "while :; do :; done"]
FIGURES = re.compile(r"figures group=(\w+) .*busy=(\d+) now=(\d+)")


@dataclass(frozen=True)
class Look:
    """Time that the card has worked for all groups of a process until then, in seconds."""

    busy: float
    now: float


@dataclass(frozen=True)
class Load:
    """A process with channel groups that are never without work."""

    process: Process
    groups: int

    def looks(self) -> list[Look]:
        lines = FIGURES.findall(self.process.finished().stdout)
        found = [(int(busy) / 1e9, int(now) / 1e9) for _, busy, now in lines]
        rounds = [found[i : i + self.groups] for i in range(0, len(found), self.groups)]
        return [Look(sum(busy for busy, _ in one), one[-1][1]) for one in rounds if len(one) == self.groups]


def keep_busy(machine: Machine) -> Process:
    """Keep a machine that counts instructions from idling: its clock would run ahead of the test."""
    return machine.start(["chrt", "-i", "0", *HOG])


def load(tenant: Slice, groups: int = 1, *before: str) -> Load:
    """Start work in so many groups of a container; `before`: steps with the last one first."""
    work = [word for _ in range(groups) for word in ("group", WORK)]
    words = [*work, *before, *["figures", f"hold={PAUSE}"] * LOOKS]
    return Load(tenant.start(PROBE, *words), groups)


def uptime(machine: Machine) -> float:
    return float(machine.read_file("/proc/uptime").split()[0])


def shares(machine: Machine, loads: Sequence[Load]) -> list[float]:
    """Measure which part of the card's time each load has from now on."""
    begin = uptime(machine)

    def since(one: Load) -> list[Look]:
        return [look for look in one.looks() if look.now > begin]

    def seen(one: Load) -> bool:
        looks = since(one)
        return len(looks) > 1 and looks[-1].now - looks[0].now > SPAN

    eventually(lambda: all(seen(one) for one in loads), "the card works", machine.scaled(SECONDS))
    ends = [(looks[0], looks[-1]) for looks in map(since, loads)]
    return [(last.busy - first.busy) / (last.now - first.now) for first, last in ends]


def near(found: Sequence[float], wanted: Sequence[float]) -> bool:
    return all(abs(a - b) < TOLERANCE * max(b, TOLERANCE) for a, b in zip(found, wanted, strict=True))


@contextmanager
def late_turns(machine: Machine) -> Iterator[None]:
    """Keep processors from the thread that carries out turns; the engine has to be loaded anew after it."""
    machine.shell(STARVE)
    hogs = [machine.start(HOG) for _ in range(machine.cpus)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.stop()
