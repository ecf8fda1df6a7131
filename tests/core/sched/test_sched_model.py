# SPDX-License-Identifier: Apache-2.0
"""Containers come, go and change under load, in random order: shares, caps and turns hold all the same."""

from __future__ import annotations

import ctypes
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.core.sched.binding import (
    MS,
    SLICE,
    SLOTS,
    Card,
    Load,
    Sched,
)
from tests.policies import BY_NUMBER, KEEPS_FREE, KEEPS_IDLE, NATIVE, WEIGHT, policies

SLOT = st.integers(0, SLOTS - 1)
POLICY = st.integers(0, len(policies()) - 1)
NUMBER = st.integers(0, 7)
FLAG = st.integers(0, 3).map(lambda n: int(n == 0))  # rarely 1
SPANS = st.integers(200_000, 20 * MS)
LOADS = st.one_of(
    st.just(Load()),
    st.just(Load(busy=0, idle=1)),
    st.builds(Load, busy=SPANS, idle=SPANS, phase=SPANS),
)


class Watched(Card):
    """A card that looks at each decision."""

    def __init__(self, sched: Sched) -> None:
        super().__init__(sched)
        self.waited: dict[int, float] = {}  # rounds since it was served, or had nothing to do
        self.capped: dict[int, float] = {}  # ns that a slot may have had since the last change
        self.had: dict[int, int] = {}

    def units(self, slot: int) -> int:
        found = self.sched.state.slot[slot]
        if not found.weight:
            return 0
        return 1 if self.sched.policy in BY_NUMBER else int(found.weight)

    def is_high(self, slot: int) -> bool:
        return bool(self.sched.state.slot[slot].highprio)

    def busy(self) -> list[int]:
        return [slot for slot, work in self.working.items() if work and self.units(slot)]

    def decide(self) -> None:
        super().decide()
        if self.sched.policy == NATIVE:
            assert self.decision.gated == 0
            return
        open_ = [slot for slot in self.loads if self.decision.open >> slot & 1]
        assert self.decision.open >> SLOTS == 0
        assert all(self.units(slot) for slot in open_), "weight 0 may run"
        served = [slot for slot in open_ if slot in self.busy()]
        if self.sched.policy in KEEPS_IDLE:
            others = [slot for slot in open_ if not (self.is_high(slot) and slot not in self.busy())]
            assert len(others) <= 1, "two containers have a turn"
        else:
            assert bool(served) == bool(self.busy()), "the card idles while somebody has work"
            assert len({self.is_high(slot) for slot in served}) < 2, "both classes at once"
            assert len(served) < 2 or not self.sched.state.contended, "the card divides a short phase"

    def waits(self, slot: int, ns: int) -> float:
        """Return the least number of rounds of its class in a time."""
        high = self.is_high(slot)
        ratio = self.sched.prio_ratio
        part = (ratio if high else 100 - ratio) / 100
        members = [other for other in self.busy() if self.is_high(other)]
        if not high and not members:
            part = 1
        round_ = self.sched.slice * sum(map(self.units, members)) if high else self.sched.round()
        return ns * part / (round_ + 2 * self.sched.slice)

    def advance(self, ns: int) -> None:
        before, start = dict(self.used), self.now
        super().advance(ns)
        passed = self.now - start
        policy = self.sched.policy
        for slot in self.loads:
            got = self.used[slot] - before[slot]
            if got or slot not in self.busy() or policy == NATIVE:
                self.waited[slot] = 0
            else:
                self.waited[slot] = self.waited.get(slot, 0) + self.waits(slot, passed)
                assert self.waited[slot] <= 3, f"slot {slot} starves"
            if policy in KEEPS_FREE and not self.is_high(slot):
                self.had[slot] = self.had.get(slot, 0) + got
                cap = passed * self.units(slot) / self.sched.max_inst
                self.capped[slot] = self.capped.get(slot, 0) + cap
                assert self.had[slot] <= self.capped[slot] + 2 * self.units(slot) * self.sched.slice

    def changed(self) -> None:
        """Begin anew to count for the caps."""
        self.had, self.capped = {}, {}


class Machine(RuleBasedStateMachine):
    """Random changes; the card checks every decision between them."""

    library: ClassVar[ctypes.CDLL]

    def __init__(self) -> None:
        super().__init__()
        self.sched = Sched(self.library, WEIGHT, 25)
        self.card = Watched(self.sched)

    def weights(self) -> int:
        return sum(int(self.sched.state.slot[slot].weight) for slot in self.card.loads)

    @rule(slot=SLOT, weight=NUMBER, highprio=FLAG, load_=LOADS)
    def join(self, slot: int, weight: int, highprio: int, load_: Load) -> None:
        if slot in self.card.loads or len(self.card.loads) >= self.sched.max_inst:
            return
        if self.weights() + weight <= self.sched.max_inst:
            self.card.join(slot, weight, load_, highprio)
            self.card.changed()
            self.card.waited[slot] = 0

    @initialize(policy=POLICY, found=st.lists(st.tuples(NUMBER, FLAG, LOADS), max_size=8))
    def first(self, policy: int, found: list[tuple[int, int, Load]]) -> None:
        self.set(policy, 1, 80)
        for slot, (weight, highprio, load_) in enumerate(found):
            self.join(slot, weight, highprio, load_)

    @rule(slot=SLOT)
    def leave(self, slot: int) -> None:
        if slot in self.card.loads:
            self.card.leave(slot)
            self.card.changed()

    @rule(pick=SLOT, weight=NUMBER, highprio=FLAG)
    def change(self, pick: int, weight: int, highprio: int) -> None:
        if not self.card.loads:
            return
        slot = sorted(self.card.loads)[pick % len(self.card.loads)]
        old = int(self.sched.state.slot[slot].weight)
        if self.weights() - old + weight <= self.sched.max_inst:
            self.sched.must("change", slot, weight, highprio, self.card.now)
            self.card.waited[slot] = 0
            self.card.changed()

    @rule(policy=POLICY, time_slices=st.integers(0, 1), ratio=st.integers(20, 99))
    def set(self, policy: int, time_slices: int, ratio: int) -> None:
        self.sched.set(self.card.now, policy=policy, time_slices=time_slices, prio_ratio=ratio)
        self.card.changed()

    @rule(slice_=st.sampled_from([SLICE // 2, SLICE, 2 * SLICE]), spare=st.integers(0, 25))
    def resize(self, slice_: int, spare: int) -> None:
        """max_inst is never below what is in use."""
        used = max(self.weights(), len(self.card.loads), 1)
        self.sched.set(self.card.now, slice=slice_, max_inst=min(25, used + spare))
        self.card.changed()

    @rule(pick=SLOT, load_=LOADS)
    def work(self, pick: int, load_: Load) -> None:
        if self.card.loads:
            slot = sorted(self.card.loads)[pick % len(self.card.loads)]
            self.card.loads[slot] = load_
            self.card.tell(slot, load_.has_work(self.card.now))

    @rule(ns=st.integers(1, 30 * MS))
    def run(self, ns: int) -> None:
        self.card.run(ns)

    @rule()
    def shares_hold_after_two_rounds(self) -> None:
        """Greedy containers beside each other: after two rounds, any round gives each its part."""
        for slot in self.card.loads:
            self.card.loads[slot] = Load()
            self.card.tell(slot, work=True)
        high = any(self.card.is_high(slot) for slot in self.card.busy())
        if high or self.sched.policy == NATIVE or not self.card.busy():
            return
        round_ = self.sched.round()
        self.card.run(2 * round_)
        alone = len(self.card.busy()) == 1 and self.sched.policy not in KEEPS_FREE
        for slot, share in self.card.shares(4 * round_).items():
            units = self.card.units(slot)
            wanted = 4 * (round_ if alone and units else units * self.sched.slice)
            assert share * 4 * round_ == pytest.approx(wanted, abs=self.sched.slice / 8 + wanted * 0.005)

    @invariant()
    def debts_are_bounded(self) -> None:
        """On a card that stops at once no container owes, and none keeps more than a turn."""
        for slot in range(SLOTS):
            assert -1 <= self.sched.state.balance[slot] <= 8 * 2 * SLICE
        assert abs(self.sched.state.lag) <= 100 * 2 * SLICE


def test_shares_hold_in_random_histories(library: ctypes.CDLL) -> None:
    """No history of changes starves anyone, passes a cap, or bends a share for more than two rounds."""
    Machine.library = library
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=80,
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )
