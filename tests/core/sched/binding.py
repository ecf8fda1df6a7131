# SPDX-License-Identifier: Apache-2.0
"""The scheduler of one GPU through ctypes, and an ideal card that does what it decides."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.shares.binding import CSettings
from tests.policies import PREEMPTIVE
from tests.structs import members

SLOTS: Final = 25
NONE: Final = SLOTS
FOREVER: Final = (1 << 64) - 1
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
SLICE: Final = 2 * MS
# The ideal card below switches in no time; benchmarks/shares has one that does not.
NO_SWITCH: Final = "-DCGPU_SCHED_SWITCH=0u"

U32, U64, S64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64


class Slot(ctypes.Structure):
    _fields_ = members("u32 joined weight highprio process spare class", "u64 granted ran")


class Decision(ctypes.Structure):
    _fields_ = members("u32 gated open turn spare", "u64 until")


class TimeSlice(ctypes.Structure):
    _fields_ = members("u64 us ns")


class Plan(ctypes.Structure):
    _fields_ = (("unit", U32 * (SLOTS + 1)), *members("u32 members units slots"))


class Plans(ctypes.Structure):
    _fields_ = (*members("u32 made there free busy"), ("of", Plan * 2))


class State(ctypes.Structure):
    _fields_ = (
        ("settings", CSettings),
        *members("u64 now since refunded", "s64 lag", "u64 phase_used"),
        *members("u32 phase contended turn rounds lone"),
        ("current", U32 * 2),
        ("balance", S64 * (SLOTS + 1)),
        ("slot", Slot * SLOTS),
        ("plans", Plans),
    )


def load(path: Path) -> ctypes.CDLL:
    """Load the core's library and say what the scheduler's functions take."""
    library = ctypes.CDLL(str(path))
    state = ctypes.POINTER(State)
    takes: dict[str, tuple[object, ...]] = {
        "init": (ctypes.POINTER(CSettings), U64),
        "set": (ctypes.POINTER(CSettings), U64),
        "join": (U32, U32, U32, U64),
        "leave": (U32, U64),
        "change": (U32, U32, U32, U64),
        "process": (U32, U32, U64),
        "ran": (U32, U64, U64),
        "decide": (U64, ctypes.POINTER(Decision)),
        "timeslices": (U32 * SLOTS, TimeSlice * SLOTS),
    }
    for name, types in takes.items():
        getattr(library, f"cgpu_sched_{name}").argtypes = (state, *types)
    library.cgpu_sched_quantise.argtypes = (U64, ctypes.POINTER(TimeSlice))
    library.core_sched_plan.argtypes = (state, ctypes.POINTER(Plans))
    library.core_sched_plan.restype = None
    return library


@dataclass
class Sched:
    """One scheduler. Every change must be taken."""

    library: ctypes.CDLL
    policy: int = PREEMPTIVE
    max_inst: int = 20
    prio_ratio: int = 80
    time_slices: int = 1
    slice: int = SLICE
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        self.must("init", ctypes.byref(self.settings()), 0)

    def settings(self) -> CSettings:
        return CSettings(self.policy, self.max_inst, self.prio_ratio, self.time_slices, self.slice)

    def must(self, name: str, *values: object) -> None:
        assert getattr(self.library, f"cgpu_sched_{name}")(ctypes.byref(self.state), *values) == 0

    def set(self, now: int, **changed: int) -> None:
        for name, value in changed.items():
            setattr(self, name, value)
        self.must("set", ctypes.byref(self.settings()), now)

    def decide(self, now: int) -> Decision:
        decision = Decision()
        self.library.cgpu_sched_decide(ctypes.byref(self.state), now, ctypes.byref(decision))
        return decision

    def round(self) -> int:
        """Return how long the low class takes until each has had its turn, if the high class is idle."""
        plans = Plans()
        self.library.core_sched_plan(ctypes.byref(self.state), ctypes.byref(plans))
        return int(plans.of[0].units) * self.slice

    def time_slices_of(self, groups: dict[int, int]) -> dict[int, TimeSlice]:
        """Return the slices of one runlist on which slots have so many active groups."""
        asked = (U32 * SLOTS)(*(groups.get(slot, 0) for slot in range(SLOTS)))
        found = (TimeSlice * SLOTS)()
        self.must("timeslices", asked, found)
        return {slot: found[slot] for slot in range(SLOTS) if found[slot].us}


@dataclass
class Load:
    """A container's load: work for `busy` ns, nothing for `idle` ns, and so on; greedy without idle."""

    busy: int = 1
    idle: int = 0
    phase: int = 0  # ns since the work began, at the start
    kernel: int = 0  # ns that cannot be interrupted; 0: any moment will do
    groups: int = 1

    def has_work(self, now: int) -> bool:
        return self.idle == 0 or (now + self.phase) % (self.busy + self.idle) < self.busy

    def next_change(self, now: int) -> int:
        """Return when work comes or ends next."""
        if self.idle == 0 or self.busy == 0:
            return FOREVER
        at = (now + self.phase) % (self.busy + self.idle)
        return now + (self.busy - at if at < self.busy else self.busy + self.idle - at)


@dataclass
class Card:
    """A card that switches in no time, and runs whatever may run and has work."""

    sched: Sched
    now: int = 0
    loads: dict[int, Load] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    kernel: tuple[int, int] | None = None  # slot and ns left of what cannot be interrupted
    decision: Decision = field(default_factory=Decision)
    working: dict[int, bool] = field(default_factory=dict)  # as told to the scheduler

    def join(self, slot: int, weight: int, load: Load, highprio: int = 0) -> None:
        self.sched.must("join", slot, weight, highprio, self.now)
        self.sched.must("process", slot, 1, self.now)
        self.loads[slot], self.used[slot] = load, 0

    def leave(self, slot: int) -> None:
        self.sched.must("leave", slot, self.now)
        del self.loads[slot]
        self.working.pop(slot, None)
        if self.kernel and self.kernel[0] == slot:
            self.kernel = None

    def decide(self) -> None:
        """Say whose work has come or ended, and ask."""
        for slot, load in self.loads.items():
            if load.idle or not self.working.get(slot):
                self.tell(slot, load.has_work(self.now))
        self.decision = self.sched.decide(self.now)
        assert self.decision.until > self.now

    def tell(self, slot: int, work: bool) -> None:
        if work != self.working.get(slot, True):
            self.sched.must("process", slot, int(work), self.now)
        self.working[slot] = work

    def wanting(self) -> list[int]:
        """Slots that have work and may run it."""
        enabled = int(self.decision.open)
        return [slot for slot, work in self.working.items() if work and enabled >> slot & 1]

    def spend(self, slot: int, ns: int) -> None:
        self.used[slot] += ns
        self.sched.must("ran", slot, ns, self.now)

    def advance(self, ns: int) -> None:
        """Let time go on, to the next event at most `ns` from here."""
        wanting = self.wanting()
        if self.kernel is None and len(wanting) == 1 and self.loads[wanting[0]].kernel:
            self.kernel = (wanting[0], self.loads[wanting[0]].kernel)
        if self.kernel is not None:
            slot, left = self.kernel
            ns = min(ns, left)
            self.kernel = (slot, left - ns) if left > ns else None
            self.now += ns
            self.spend(slot, ns)
            return
        self.now += ns
        for slot, part in self.parts(wanting, ns).items():
            self.spend(slot, part)

    def parts(self, wanting: list[int], ns: int) -> dict[int, int]:
        """Divide time among containers that may run, as the card's own timeslices do."""
        if len(wanting) <= 1:
            return dict.fromkeys(wanting, ns)
        slices = self.sched.time_slices_of({slot: self.loads[slot].groups for slot in self.loads})
        passes = {slot: self.loads[slot].groups * (slices[slot].ns if slices else 1) for slot in wanting}
        return {slot: ns * length // sum(passes.values()) for slot, length in passes.items()}

    def run(self, ns: int) -> None:
        """Run for so long."""
        end = self.now + ns
        while self.now < end:
            self.decide()
            event = min(end, int(self.decision.until))
            for load in self.loads.values():
                if load.idle:
                    event = min(event, load.next_change(self.now))
            while self.now < event:
                self.advance(event - self.now)

    def shares(self, ns: int) -> dict[int, float]:
        """Return which part of so much time each slot gets."""
        before = dict(self.used)
        self.run(ns)
        return {slot: (self.used[slot] - before[slot]) / ns for slot in self.loads}
