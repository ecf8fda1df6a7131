# SPDX-License-Identifier: Apache-2.0
"""High priority: what prio_ratio says, at once, and no more."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.sched.binding import (
    FAIR,
    FIXED,
    MS,
    NATIVE,
    PREEMPTIVE,
    SECOND,
    SLICE,
    SOFT,
    WEIGHT,
    Card,
    Load,
    Sched,
)

ANY = (FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT)
# What the two containers of mixed() have of what high priority leaves; by their weights elsewhere.
REST = {FAIR: (1 / 20, 1 / 20), FIXED: (1 / 20, 3 / 20), PREEMPTIVE: (1 / 2, 1 / 2)}
RATIOS = (20, 37, 80, 99)
FEW = settings(max_examples=15, suppress_health_check=list(HealthCheck))


def mixed(library: ctypes.CDLL, policy: int, ratio: int, time_slices: int = 1, slice_: int = SLICE) -> Card:
    """Return a card with a high-priority container in slot 0 and two greedy ones of weights 1 and 3."""
    card = Card(Sched(library, policy, 20, ratio, time_slices, slice_))
    card.join(0, 1, Load(), highprio=1)
    card.join(1, 1, Load())
    card.join(2, 3, Load())
    return card


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("policy", ANY)
def test_takes_its_ratio_within_a_slice(library: ctypes.CDLL, policy: int, ratio: int) -> None:
    """At every moment of a busy time the high class has had prio_ratio of it, give or take a slice."""
    card = mixed(library, policy, ratio)
    while card.now < SECOND:
        card.decide()
        card.advance(card.decision.until - card.now)
        assert abs(card.used[0] - card.now * ratio / 100) <= SLICE


@pytest.mark.parametrize("policy", ANY)
def test_the_rest_is_shared_by_the_policy(library: ctypes.CDLL, policy: int) -> None:
    """Beside a busy high-priority container the others have their policy's shares of what is left."""
    shares = mixed(library, policy, 60).shares(20 * SECOND)
    low, high = REST.get(policy, (1 / 4, 3 / 4))
    assert shares[0] == pytest.approx(0.6, rel=0.01)
    assert shares[1] == pytest.approx(0.4 * low, rel=0.01)
    assert shares[2] == pytest.approx(0.4 * high, rel=0.01)


@pytest.mark.parametrize("time_slices", [0, 1])
@pytest.mark.parametrize("policy", ANY)
def test_several_share_by_the_policy(library: ctypes.CDLL, policy: int, time_slices: int) -> None:
    """They divide prio_ratio evenly under policies 0 and 1, and by weight under the others."""
    card = mixed(library, policy, 80, time_slices=time_slices)
    card.join(7, 3, Load(), highprio=1)
    shares = card.shares(20 * SECOND)
    part = 0.5 if policy in (FAIR, PREEMPTIVE) else 0.25
    assert shares[0] == pytest.approx(0.8 * part, rel=0.01)
    assert shares[7] == pytest.approx(0.8 * (1 - part), rel=0.01)


@pytest.mark.parametrize("policy", ANY)
def test_preempts_at_once(library: ctypes.CDLL, policy: int) -> None:
    """Work that comes after a pause does not wait for the end of somebody's slice, however long that is."""
    card = mixed(library, policy, 80, slice_=50 * MS)
    card.loads[0] = Load(busy=0, idle=1)
    card.run(SECOND)
    card.loads[0] = Load()
    card.decide()
    assert card.decision.open & 0b111 == 0b001


@pytest.mark.parametrize("policy", ANY)
def test_is_left_out_while_idle(library: ctypes.CDLL, policy: int) -> None:
    """An idle high-priority container takes nothing from the others, with an open process or without."""
    card = mixed(library, policy, 80)
    card.loads[0] = Load(busy=0, idle=1)
    shares = card.shares(10 * SECOND)
    assert tuple(shares.values()) == pytest.approx((0, *REST.get(policy, (1 / 4, 3 / 4))), rel=0.01)


@pytest.mark.parametrize("policy", ANY)
def test_alone_on_the_card(library: ctypes.CDLL, policy: int) -> None:
    """Without others it has all, but for policies 0 and 3, which hold the rest: there it has prio_ratio."""
    card = Card(Sched(library, policy, 20, 70))
    card.join(4, 2, Load(), highprio=1)
    wanted = 0.7 if policy in (FAIR, FIXED) else 1
    assert card.shares(SECOND)[4] == pytest.approx(wanted, rel=0.01)
    assert card.decision.gated == (policy in (FAIR, FIXED))


@FEW
@given(
    policy=st.sampled_from(ANY),
    ratio=st.integers(20, 99),
    busy=st.integers(50_000, 9 * MS),
    idle=st.integers(50_000, 9 * MS),
)
def test_pauses_win_nothing(library: ctypes.CDLL, policy: int, ratio: int, busy: int, idle: int) -> None:
    """However a container lets its work come and go, it never has more than prio_ratio and a slice."""
    card = mixed(library, policy, ratio)
    card.loads[0] = Load(busy, idle)
    while card.now < SECOND // 2:
        card.run(10 * MS)
        assert card.used[0] <= card.now * ratio / 100 + SLICE


@pytest.mark.parametrize("long", [0, 1])
@pytest.mark.parametrize("policy", ANY)
def test_overruns_between_the_classes_are_paid_back(library: ctypes.CDLL, policy: int, long: int) -> None:
    """Kernels of 30 ms on one side, which run on in the other's time, do not move prio_ratio."""
    card = mixed(library, policy, 40, time_slices=0)
    for slot in range(3):
        card.loads[slot].kernel = 30 * MS if (slot == 0) == bool(long) else 200_000
    shares = card.shares(40 * SECOND)
    assert shares[0] == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize("quiet", [1, 8])
@pytest.mark.parametrize("policy", [*ANY, NATIVE])
def test_what_ran_before_a_change_is_not_owed_after_it(library: ctypes.CDLL, policy: int, quiet: int) -> None:
    """A report that comes after a change, of time before it, takes nothing from whom the change made high."""
    sched = Sched(library, policy, 3)
    for slot in range(3):
        sched.must("join", slot, 1, int(policy == NATIVE and slot == 0), 0)
        sched.must("process", slot, 1, 0)
    sched.decide(0)
    now = quiet * SECOND
    if policy == NATIVE:
        sched.set(now, policy=WEIGHT)
    else:
        sched.must("change", 0, 1, 1, now)
    for slot in range(3):
        sched.must("ran", slot, now // 3, now)
    decision = sched.decide(now)
    assert decision.open & 1, "high priority waits"
    assert int(sched.state.lag) >= 0
