# SPDX-License-Identifier: Apache-2.0
"""
Data of a live view, made of one reading after the other: rates, and short histories.

Pure: readings in, records out. Shares in percent, sizes in bytes. None: not known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from cgpu.client.stat import GpuStat, SliceStat
from cgpu.smi.limits import WHOLE, with_utilisation
from cgpu.smi.model import Container, Gpu
from cgpu.smi.names import Owner, owner
from cgpu.top.reading import Key, Process, Reading, key

HISTORY = 240
"""As many figures as are kept of each thing."""
SHORTEST_S = 1.0
"""Rates are of at least this time: the engine's figures can be a second old."""
NS = 1e9

History = tuple[float | None, ...]
What = tuple[Key | int, str]
"""A slice or a GPU, and what of it."""
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a GPU at a moment."""

    key: Key
    container: Container
    stat: SliceStat | None
    throttled: float | None
    """Part of the time in which its share did not let it run."""
    refused_now: int
    """Calls that were refused since the reading that rates begin with."""
    times: History = ()
    """Utilisation so far, the latest last."""
    memories: History = ()
    """Memory so far, of what the slice has."""

    @property
    def owner(self) -> Owner:
        """Container, pod and namespace."""
        return owner(self.container.id, self.container.name)

    @property
    def memory(self) -> float | None:
        """Memory in use, of what the slice has."""
        return part(self.container.used, self.container.allocated)

    @property
    def refused(self) -> int | None:
        """Calls that were refused, for memory and for other reasons, since the container was registered."""
        return None if self.stat is None else refusals(self.stat)


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU at a moment."""

    gpu: Gpu
    stat: GpuStat | None
    utilisation: float | None
    """Part of the time in which slices ran."""
    used: int | None
    """Bytes that are charged to slices, also to those that have ended and still have some."""
    times: History = ()
    memories: History = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the card that need attention."""
        if self.stat is None:
            return ()
        found = {
            "the driver has lost it": self.stat.lost,
            "memory is missing that no slice is charged for": self.stat.drift_lasting,
            "time is not divided": self.stat.undivided,
            "MIG mode": self.stat.mig,
        }
        return tuple(name for name, holds in found.items() if holds)


@dataclass(frozen=True, slots=True)
class View:
    """Everything shown at a moment."""

    cards: tuple[Card, ...] = ()
    slices: tuple[Slice, ...] = ()
    engine: str = ""
    processes: tuple[Process, ...] = ()
    """Details of the slice that was asked for."""
    restarted: bool = False
    """Another process is the engine since the reading before."""


class Recorder:
    """Makes a view of each reading, with those before it in mind."""

    def __init__(self) -> None:
        """Nothing is known at first."""
        self._before: deque[Reading] = deque()
        self._histories: dict[What, deque[float | None]] = {}
        self._away = False

    def add(self, reading: Reading) -> View:
        """Take a reading, which is later than those before."""
        base = self._base(reading)
        gpus = reading.gpus if reading.measured else with_utilisation(base.gpus, reading.gpus)
        restarted = self._restarted(reading)
        self._before.append(reading)
        self._away = False
        cards = tuple(self._card(gpu, base, reading) for gpu in gpus)
        slices = tuple(self._slice(gpu, one, base, reading) for gpu in gpus for one in gpu.containers)
        there = {*(one.key for one in slices), *(one.gpu.index for one in cards)}
        self._histories = {what: kept for what, kept in self._histories.items() if what[0] in there}
        return View(cards, slices, reading.engine, reading.watched, restarted)

    def miss(self) -> None:
        """Leave a gap in all histories: there was no engine. Rates begin anew."""
        for kept in self._histories.values():
            kept.append(None)
        self._away = self._away or bool(self._before)
        self._before.clear()

    def _base(self, reading: Reading) -> Reading:
        """Return the latest reading that is old enough for a rate, or the oldest. Drop earlier ones."""
        while len(self._before) > 1 and reading.at - self._before[1].at >= shortest(reading):
            self._before.popleft()
        return self._before[0] if self._before else reading

    def _restarted(self, reading: Reading) -> bool:
        if self._away:
            return True
        last = self._before[-1] if self._before else reading
        return last.starts is not None and reading.starts is not None and last.starts != reading.starts

    def _card(self, gpu: Gpu, base: Reading, now: Reading) -> Card:
        stat, before = now.stats.get(gpu.index), base.stats.get(gpu.index)
        if stat is None:
            used = _sum([one.used for one in gpu.containers]) if gpu.hidden is None else None
            shares = [one.utilisation for one in gpu.containers]
            running = _sum(shares) if gpu.hidden is None else None
        else:
            used = stat.used
            same = before is not None and before.uuid == stat.uuid and gpu.scheduling.measures is not False
            running = rate(before.usage, stat.usage, now.at - base.at) if before and same else None
        return Card(
            gpu,
            stat,
            running,
            used,
            self._history((gpu.index, "time"), running),
            self._history((gpu.index, "memory"), part(used, gpu.total)),
        )

    def _slice(self, gpu: Gpu, container: Container, base: Reading, now: Reading) -> Slice:
        this = key(gpu, container)
        stat, before = slice_stat(now, this), slice_stat(base, this)
        throttled, refused = None, 0
        if stat is not None and before is not None:
            throttled = rate(before.throttled, stat.throttled, now.at - base.at)
            refused = max(0, refusals(stat) - refusals(before))
        return Slice(
            this,
            container,
            stat,
            throttled,
            refused,
            self._history((this, "time"), container.utilisation),
            self._history((this, "memory"), part(container.used, container.allocated)),
        )

    def _history(self, what: What, figure: float | None) -> History:
        kept = self._histories.setdefault(what, deque(maxlen=HISTORY))
        kept.append(figure)
        return tuple(kept)


def shortest(reading: Reading) -> float:
    """Return the shortest time in seconds that rates are exact over."""
    exact = max((gpu.scheduling.resolution or 0 for gpu in reading.gpus), default=0)
    return max(SHORTEST_S, 2 * exact / NS)


def slice_stat(reading: Reading, which: Key) -> SliceStat | None:
    """Return the counters of a slice."""
    stat = reading.stats.get(which.gpu)
    return next((one for one in stat.slices if one.id == which.id), None) if stat is not None else None


def refusals(stat: SliceStat) -> int:
    """Return how many calls were refused."""
    return sum(stat.refused.values()) + sum(stat.refused_calls.values())


def rate(before: int, after: int, elapsed: float) -> float | None:
    """Return nanoseconds out of the time between two readings."""
    if elapsed <= 0 or after < before:
        return None
    return min(WHOLE, WHOLE * (after - before) / NS / elapsed)


def part(some: int | None, whole: int | None) -> float | None:
    """Return a part of a whole."""
    return None if some is None or not whole else WHOLE * some / whole


def _sum(figures: Sequence[Number | None]) -> Number | None:
    known = [one for one in figures if one is not None]
    return sum(known, start=type(known[0])()) if known and len(known) == len(figures) else None
