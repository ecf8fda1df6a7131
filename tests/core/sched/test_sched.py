# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time are what the policy says, on an ideal card in virtual time."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.sched.binding import (
    MS,
    SECOND,
    SLICE,
    Card,
    Load,
    Sched,
)
from tests.policies import BY_NUMBER, DIVIDED, KEEPS_FREE, KEEPS_IDLE, NATIVE, WEIGHT, WORKING

ERROR = 0.01
RATIOS = (20, 37, 80, 99)
FEW = settings(max_examples=10, suppress_health_check=list(HealthCheck))


@st.composite
def weights(draw: st.DrawFn, least: int = 2) -> list[int]:
    """Weights of 2 to 25 containers that a GPU with max_inst 25 can give out."""
    count = draw(st.integers(least, 25))
    found = [1] * count
    for _ in range(draw(st.integers(0, 25 - count))):
        found[draw(st.integers(0, count - 1))] += 1
    return found


def says(policy: int, found: list[int], max_inst: int) -> list[float]:
    """Share of each container that always has work, by a policy."""
    units = [1 if policy in BY_NUMBER else weight for weight in found]
    return [unit / (max_inst if policy in KEEPS_FREE else sum(units)) for unit in units]


def greedy(sched: Sched, found: list[int]) -> Card:
    """Return a card on which containers of these weights always have work."""
    card = Card(sched)
    for slot, weight in enumerate(found):
        card.join(slot, weight, Load())
    return card


def assert_shares(card: Card, wanted: list[float], ns: int = 10 * SECOND) -> None:
    shares = card.shares(ns)
    for slot, share in enumerate(wanted):
        assert shares[slot] == pytest.approx(share, rel=ERROR), f"slot {slot}"


@pytest.mark.parametrize("kernel", [0, 300_000, 5 * MS, 50 * MS])
@pytest.mark.parametrize("policy", KEEPS_FREE)
def test_a_lone_container_stays_below_the_cap(library: ctypes.CDLL, policy: int, kernel: int) -> None:
    """A policy that keeps free time gives a lone container its part and no more, with any kernels."""
    card = Card(Sched(library, policy, 20))
    card.join(3, 5, Load(kernel=kernel))
    share = card.shares(10 * SECOND)[3]
    cap = 0.05 if policy in BY_NUMBER else 0.25
    assert share == pytest.approx(cap, rel=ERROR + kernel / 10 / SECOND / cap)
    assert share * 10 * SECOND <= cap * 10 * SECOND + 10 * SLICE + kernel


@pytest.mark.parametrize("policy", KEEPS_IDLE)
@FEW
@given(data=st.data())
def test_bursts_do_not_take_from_others(library: ctypes.CDLL, policy: int, data: st.DataObject) -> None:
    """Greedy containers have their share beside idle and bursty ones, which never have more than theirs."""
    found = data.draw(weights(least=3))
    card = Card(Sched(library, policy, 25))
    spans = st.integers(MS, 80 * MS)
    for slot, weight in enumerate(found):
        load_ = Load() if slot == 0 else Load(data.draw(spans), data.draw(spans), data.draw(spans))
        card.join(slot, weight, load_)
    shares = card.shares(4 * SECOND)
    wanted = says(policy, found, 25)
    assert shares[0] == pytest.approx(wanted[0], rel=2 * ERROR)
    for slot, share in shares.items():
        assert share <= wanted[slot] * (1 + 2 * ERROR)


@FEW
@given(
    policy=st.sampled_from(WORKING),
    others=st.integers(1, 3),
    busy=st.one_of(st.integers(SLICE * 9 // 10, SLICE - 1), st.integers(MS, 9 * MS)),
    idle=st.integers(1000, 100_000),
)
@pytest.mark.parametrize("highprio", [0, 1])
def test_pauses_win_nothing(
    library: ctypes.CDLL, highprio: int, policy: int, others: int, busy: int, idle: int
) -> None:
    """A container that pauses in each turn gains no time: the greedy ones keep their part."""
    card = Card(Sched(library, policy, 20, time_slices=0))
    card.join(0, 1, Load(busy, idle), highprio)
    for slot in range(1, 1 + others):
        card.join(slot, 1, Load(), highprio)
    shares = card.shares(2 * SECOND)
    for slot in range(1, 1 + others):
        assert shares[slot] >= 0.99 / (1 + others)


@FEW
@given(
    policy=st.sampled_from(DIVIDED),
    found=st.lists(st.tuples(st.integers(1, 5), st.integers(300_000, 40 * MS)), min_size=2, max_size=5),
)
def test_overruns_are_paid_back(library: ctypes.CDLL, policy: int, found: list[tuple[int, int]]) -> None:
    """With kernels that cannot be interrupted no container is further off than they run on once."""
    card = Card(Sched(library, policy, 25, time_slices=0))
    for slot, (weight, kernel) in enumerate(found):
        card.join(slot, weight, Load(kernel=kernel))
    card.run(20 * SECOND)
    bound = sum(kernel for _, kernel in found) + 2 * sum(weight for weight, _ in found) * SLICE
    wanted = says(policy, [weight for weight, _ in found], 25)
    for slot, share in enumerate(wanted):
        assert abs(card.used[slot] - share * card.now) <= bound


@pytest.mark.parametrize("policy", KEEPS_IDLE)
def test_no_debt_beyond_the_overrun(library: ctypes.CDLL, policy: int) -> None:
    """A container that has paid its debt is served like the others within the rounds of its overrun."""
    card = greedy(Sched(library, policy, 4), [1, 1, 1, 1])
    card.run(SECOND)
    card.loads[0].kernel = 30 * MS
    card.run(9 * MS)
    card.loads[0].kernel = 0
    card.run(30 * 4 * MS + 2 * card.sched.round())
    assert_shares(card, [0.25] * 4, SECOND)


# High priority: prio_ratio's part, at once, and no more


def mixed(library: ctypes.CDLL, policy: int, ratio: int, time_slices: int = 1, slice_: int = SLICE) -> Card:
    """Return a card with a high-priority container in slot 0 and two greedy ones of weights 1 and 3."""
    card = Card(Sched(library, policy, 20, ratio, time_slices, slice_))
    card.join(0, 1, Load(), highprio=1)
    card.join(1, 1, Load())
    card.join(2, 3, Load())
    return card


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("policy", DIVIDED)
def test_takes_its_ratio_within_a_slice(library: ctypes.CDLL, policy: int, ratio: int) -> None:
    """At every moment of a busy time the high class has had prio_ratio of it, give or take a slice."""
    card = mixed(library, policy, ratio)
    while card.now < SECOND:
        card.decide()
        card.advance(card.decision.until - card.now)
        assert abs(card.used[0] - card.now * ratio / 100) <= SLICE


@pytest.mark.parametrize("policy", DIVIDED)
def test_preempts_at_once(library: ctypes.CDLL, policy: int) -> None:
    """Work that comes after a pause does not wait for the end of another's slice, however long that is."""
    card = mixed(library, policy, 80, slice_=50 * MS)
    card.loads[0] = Load(busy=0, idle=1)
    card.run(SECOND)
    card.loads[0] = Load()
    card.decide()
    assert card.decision.open & 0b111 == 0b001


@pytest.mark.parametrize("policy", DIVIDED)
def test_is_left_out_while_idle(library: ctypes.CDLL, policy: int) -> None:
    """An idle high-priority container takes nothing from the others, with an open process or without."""
    card = mixed(library, policy, 80)
    card.loads[0] = Load(busy=0, idle=1)
    shares = card.shares(10 * SECOND)
    assert tuple(shares.values()) == pytest.approx((0, *says(policy, [1, 3], 20)), rel=0.01)


@pytest.mark.parametrize("policy", DIVIDED)
def test_alone_on_the_card(library: ctypes.CDLL, policy: int) -> None:
    """Without others it has all, but where a policy keeps the rest: there it has prio_ratio."""
    card = Card(Sched(library, policy, 20, 70))
    card.join(4, 2, Load(), highprio=1)
    wanted = 0.7 if policy in KEEPS_FREE else 1
    assert card.shares(SECOND)[4] == pytest.approx(wanted, rel=0.01)
    assert card.decision.gated == (policy in KEEPS_FREE)


@settings(FEW, max_examples=15)
@given(
    policy=st.sampled_from(DIVIDED),
    ratio=st.integers(20, 99),
    busy=st.integers(50_000, 9 * MS),
    idle=st.integers(50_000, 9 * MS),
)
def test_pauses_win_nothing_of_the_rest(
    library: ctypes.CDLL, policy: int, ratio: int, busy: int, idle: int
) -> None:
    """However a container lets its work come and go, it never has more than prio_ratio and a slice."""
    card = mixed(library, policy, ratio)
    card.loads[0] = Load(busy, idle)
    while card.now < SECOND // 2:
        card.run(10 * MS)
        assert card.used[0] <= card.now * ratio / 100 + SLICE


@pytest.mark.parametrize("long", [0, 1])
@pytest.mark.parametrize("policy", DIVIDED)
def test_overruns_between_the_classes_are_paid_back(library: ctypes.CDLL, policy: int, long: int) -> None:
    """Kernels of 30 ms on one side, which run on in the other's time, do not move prio_ratio."""
    card = mixed(library, policy, 40, time_slices=0)
    for slot in range(3):
        card.loads[slot].kernel = 30 * MS if (slot == 0) == bool(long) else 200_000
    shares = card.shares(40 * SECOND)
    assert shares[0] == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize("quiet", [1, 8])
@pytest.mark.parametrize("policy", [*DIVIDED, NATIVE])
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
