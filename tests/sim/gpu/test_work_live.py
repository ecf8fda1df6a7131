# SPDX-License-Identifier: Apache-2.0
"""Scheduler and card under random changes: no work is lost, nobody starves, caps and shares hold."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from benchmarks.shares import changes
from benchmarks.shares.binding import (
    FAIR,
    FIXED,
    MS,
    NATIVE,
    PREEMPTIVE,
    SECOND,
    US,
    Case,
    Container,
    Harness,
    Running,
    Step,
)
from benchmarks.shares.cases import COSTS

PLACES = 25
DEPTH = 16384  # kernels that a container's channel takes
AHEAD = 10 * MS  # of work that who always has some has in its queue
FORGOTTEN = 500 * MS  # after which the other side has had back what a container ran on before it left
# A turn shorter than an eighth of a slice is kept for the next round (docs/scheduling.md).
KEPT = 0.125

SLOT = st.integers(0, PLACES - 1)
NUMBER = st.integers(0, 6)
RARELY = st.integers(0, 4).map(lambda n: n == 0)
POLICY = st.integers(0, 5)
SLICES = st.sampled_from([500 * US, 2 * MS, 4 * MS])
RATIOS = st.sampled_from([20, 50, 80])
SHORT = st.builds(Step, st.integers(20 * US, 900 * US), st.just(1))
BLOCKS = st.builds(Step, st.integers(100 * US, 4 * MS), st.integers(20 * US, 500 * US))
LONG = st.builds(Step, st.integers(1 * MS, 30 * MS), st.just(0))
STEADY = Step(500 * US, 1)
KERNELS = st.one_of(SHORT, SHORT, BLOCKS, LONG)


class Watch:
    """What is known of one container from outside."""

    def __init__(self, kernel: Step | None) -> None:
        self.kernel = kernel  # it always has work, of such kernels; None: only what is launched by hand
        self.launched = 0  # ns of kernels
        self.longest = 0  # ns of a kernel that could not be cut
        self.begin()

    def begin(self) -> None:
        """Count anew for the caps."""
        self.had, self.cap = 0, 0.0
        self.served()

    def served(self) -> None:
        self.waited = 0.0  # rounds since it was on the card, or had no work
        self.slack = 0.0  # rounds that it owes, and that kernels run on
        self.changes = 0


class Machine(RuleBasedStateMachine):
    """Random changes on a card in operation."""

    harness: ClassVar[Harness]
    running: Running

    def __init__(self) -> None:
        super().__init__()
        self.watched: dict[int, Watch] = {}
        self.gone: list[tuple[int, int]] = []  # when, and its longest kernel

    @initialize(
        policy=POLICY,
        slice_=SLICES,
        by_card=st.booleans(),
        found=st.lists(st.tuples(NUMBER, RARELY, KERNELS), max_size=8),
    )
    def first(self, policy: int, slice_: int, found: list[tuple[int, bool, Step]], *, by_card: bool) -> None:
        case = Case(policy, [], 0, slice_, PLACES, time_slices=by_card, costs=COSTS)
        self.running = Running(self.harness, case)
        for slot, (weight, high, kernel) in enumerate(found):
            self.join(slot, weight, kernel, high=high, always=True)

    # --- what happens ---

    def changed(self) -> None:
        for one in self.watched.values():
            one.changes += 1
            one.had, one.cap = 0, 0.0

    def pick(self, pick: int) -> int | None:
        slots = sorted(self.running.members)
        return slots[pick % len(slots)] if slots else None

    def room(self, weight: int, without: int | None = None) -> bool:
        """Whether the card has such a weight to give."""
        given = sum(one.weight for slot, one in self.running.members.items() if slot != without)
        return given + weight <= PLACES

    @rule(slot=SLOT, weight=NUMBER, kernel=KERNELS, high=RARELY, always=st.booleans())
    def join(self, slot: int, weight: int, kernel: Step, *, high: bool, always: bool) -> None:
        if slot in self.running.members or not self.room(weight):
            return
        self.running.join(slot, Container(weight, highprio=high, by_hand=True, depth=DEPTH))
        self.changed()
        self.watched[slot] = Watch(kernel if always else None)

    @rule(pick=SLOT)
    def leave(self, pick: int) -> None:
        slot = self.pick(pick)
        if slot is not None:
            self.running.leave(slot)
            self.gone.append((self.running.now, self.watched.pop(slot).longest))
            self.changed()

    @rule(pick=SLOT, weight=NUMBER, high=RARELY)
    def change(self, pick: int, weight: int, *, high: bool) -> None:
        slot = self.pick(pick)
        if slot is not None and self.room(weight, slot):
            self.running.change(slot, weight, highprio=high)
            self.changed()

    @rule(policy=POLICY, ratio=RATIOS, slice_=SLICES, by_card=st.booleans())
    def set(self, policy: int, ratio: int, slice_: int, *, by_card: bool) -> None:
        case = replace(self.running.case, policy=policy, prio_ratio=ratio, slice=slice_, time_slices=by_card)
        self.running.set(case)
        self.changed()

    @rule(pick=SLOT, kernel=KERNELS, count=st.integers(1, 20))
    def burst(self, pick: int, kernel: Step, count: int) -> None:
        slot = self.pick(pick)
        if slot is not None:
            self.launch(slot, replace(kernel, count=count))

    @rule(pick=SLOT, kernel=st.one_of(st.none(), KERNELS))
    def work(self, pick: int, kernel: Step | None) -> None:
        """From now on it always has work, or only what is launched."""
        slot = self.pick(pick)
        if slot is not None:
            self.watched[slot].kernel = kernel

    @rule(ns=st.integers(1, 60 * MS))
    def run(self, ns: int) -> None:
        while ns > 0:
            step = min(ns, 2 * MS)
            self.advance(step)
            ns -= step

    # --- what must hold ---

    def launch(self, slot: int, step: Step) -> None:
        room = DEPTH - self.running.figures(slot).queued
        step = replace(step, count=min(step.count, room))
        self.running.submit(slot, step)
        one = self.watched[slot]
        one.launched += step.count * step.length
        one.longest = max(one.longest, step.length if step.grain == 0 else step.grain)

    def advance(self, ns: int) -> None:
        for slot, one in self.watched.items():
            if one.kernel is not None:
                missing = (ns + AHEAD) // one.kernel.length + 1 - self.running.figures(slot).queued
                self.launch(slot, replace(one.kernel, count=max(0, missing)))
        before = {slot: self.running.figures(slot) for slot in self.watched}
        self.running.advance(ns)
        for slot, one in self.watched.items():
            figures = self.running.figures(slot)
            assert figures.cancelled == 0
            assert figures.submitted == figures.completed + figures.queued, "work is lost"
            got = figures.used - before[slot].used
            if got or not before[slot].queued or not self.units(slot) or self.running.case.policy == NATIVE:
                one.served()
            else:
                self.waits(slot, ns)
            self.caps(slot, got, ns)

    def units(self, slot: int) -> int:
        return changes.units(self.running.case.policy, self.running.members[slot])

    def waits(self, slot: int, ns: int) -> None:
        """Nobody starves: after what it owes it waits a few rounds, and for kernels that cannot be cut."""
        case, one = self.running.case, self.watched[slot]
        high = self.running.members[slot].highprio
        sides = [other for other in self.running.members if self.running.members[other].highprio is high]
        both = len(sides) < len(self.running.members) or case.policy in (FAIR, FIXED)
        ratio = case.prio_ratio / 100
        part = (ratio if high else 1 - ratio) if both and self.any_high() else 1.0
        whole = max(sum(map(self.units, sides)), 0 if high else self.running.round() // case.slice)
        costs = len(self.watched) * (case.costs.switch + case.costs.save + case.costs.command)
        round_ = whole * case.slice + 2 * case.slice + costs
        one.waited += ns * part / round_
        owing = self.running.owed(slot) / (self.units(slot) * case.slice)
        one.slack = max(one.slack, owing + self.runs_on() / round_)
        assert one.waited <= 3 + one.slack + one.changes, f"slot {slot} starves"

    def runs_on(self) -> int:
        """How long kernels can have run on that are not paid back yet, also of those who have left since."""
        gone = sum(length for at, length in self.gone if self.running.now - at < FORGOTTEN)
        return gone + sum(one.longest for one in self.watched.values())

    def any_high(self) -> bool:
        return any(one.highprio for one in self.running.members.values())

    def caps(self, slot: int, got: int, ns: int) -> None:
        """Policies 0 and 3 give nobody more than its part, but for one turn and a kernel that runs on."""
        case, one = self.running.case, self.watched[slot]
        if case.policy not in (FAIR, FIXED) or self.running.members[slot].highprio:
            return
        one.had += got
        one.cap += ns * self.units(slot) / PLACES
        slack = 2 * self.units(slot) * case.slice + one.longest + case.costs.save + case.costs.command
        assert one.had <= one.cap + slack, f"slot {slot} is above its cap"

    @rule(
        phase=st.integers(0, 99),
        kind=st.sampled_from(["join", "leave", "change", "set"]),
        slot=SLOT,
        weight=NUMBER,
        high=RARELY,
        settings_=st.tuples(POLICY, RATIOS, SLICES, st.booleans()),
    )
    def settle(
        self,
        phase: int,
        kind: str,
        slot: int,
        weight: int,
        settings_: tuple[int, int, int, bool],
        *,
        high: bool,
    ) -> None:
        """While all have work, two rounds after one more change shares are what the policy says."""
        if not self.is_idle():
            return
        for one in self.watched.values():
            one.kernel = STEADY
        self.run(1 + min(60 * MS, changes.round_of(self.running) * phase // 100))
        policy, ratio, slice_, by_card = settings_
        match kind:
            case "join":
                self.join(slot, weight, STEADY, high=high, always=True)
            case "leave":
                self.leave(slot)
            case "change":
                self.change(slot, weight, high=high)
            case _:
                self.set(policy, ratio, slice_, by_card=by_card)
        if self.running.case.policy != NATIVE and any(map(self.units, self.watched)):
            self.compare()

    def compare(self) -> None:
        round_ = changes.round_of(self.running)
        window = max(1, min(changes.ROUNDS, SECOND // round_)) * round_
        self.run(changes.SETTLING * round_)
        for slot, due in changes.dues(self.running).items():
            self.launch(slot, replace(STEADY, count=int(due * window + AHEAD) // STEADY.length))
        bound = changes.bound_of(self.running) + KEPT
        assert changes.turns_off(self.running, window) <= bound

    def is_idle(self) -> bool:
        """Let what there is end. Say whether nothing is left, and nobody owes anything."""
        for one in self.watched.values():
            one.kernel = None
        for _ in range(100):
            figures = {slot: self.running.figures(slot) for slot in self.watched}
            queued = [slot for slot, one in figures.items() if one.queued]
            if not queued:
                return not any(map(self.running.owed, self.watched))
            if not any(map(self.units, queued)):
                return False
            self.run(10 * MS)
        return False

    def teardown(self) -> None:
        """All that was launched by who is still there ends, and took as long as it is."""
        with self.running:
            self.running.set(replace(self.running.case, policy=PREEMPTIVE))
            for slot in self.watched:
                self.running.change(slot, 1, highprio=False)
            assert self.running.drain(1000_000 * MS, 50 * MS), "work is lost"
            for slot, one in self.watched.items():
                assert self.running.figures(slot).busy == one.launched


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(tmp_path_factory.mktemp("live"))


def test_random_changes_under_load(harness: Harness) -> None:
    """No history loses work, starves anyone, passes a cap, or bends a share for more than two rounds."""
    Machine.harness = harness
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=120,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
        ),
    )
