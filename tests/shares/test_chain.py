# SPDX-License-Identifier: Apache-2.0
"""What policies promise is what a simulated card does, through driver calls alone, over ten virtual seconds.

To enable one channel and disable another costs this card about 80 us (20 us until a control acts, 20 us to
save a context, 30 us to load one). So shares are those of the time that work ran, or timeslices are long
where the whole time counts.
"""

from __future__ import annotations

import os

import pytest

from tests.layouts.calls import How
from tests.layouts.stage import Library
from tests.shares.chain import (
    FAIR,
    FIXED,
    MS,
    NATIVE,
    PREEMPTIVE,
    SECOND,
    SET_TIMESLICE,
    SOFT,
    US,
    WEIGHT,
    Box,
    Card,
    card,
    load,
)

TEN = 10 * SECOND
ENFORCE = os.environ.get("CGPU_TEST_ENFORCE") != "off"
WEIGHTS = {2: [1, 2], 5: [1, 2, 3, 4, 10], 25: [1] * 25}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return load(tmp_path_factory.mktemp("shares"))


def parts(shares: list[float]) -> list[float]:
    """Return shares of the time in which anything ran."""
    return [share / sum(shares) for share in shares]


def near(found: list[float], wanted: list[float], within: float) -> bool:
    """Tell whether all are near what is wanted, relative to it, but for a thousandth of the card."""
    return all(abs(one - other) <= within * other + 0.001 for one, other in zip(found, wanted, strict=True))


def greedy(one: Card, weights: list[int], max_inst: int = 25) -> list[Box]:
    """Register containers that always have work."""
    one.write("0/max_inst", max_inst)
    boxes = [one.box(weight) for weight in weights]
    for box in boxes:
        one.greedy(box)
    return boxes


@pytest.mark.enforcement
@pytest.mark.parametrize("count", sorted(WEIGHTS))
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_weights(library: Library, policy: int, count: int) -> None:
    """Time goes by weight, whether channels are enabled in turn or timeslices are set."""
    weights = WEIGHTS[count]
    with card(library, policy, enforce=ENFORCE) as one:
        boxes = greedy(one, weights)
        found = one.shares(boxes, TEN)
    assert near(parts(found), [weight / sum(weights) for weight in weights], 0.01), found
    assert sum(found) > 0.95


@pytest.mark.parametrize("count", [2, 5, 25])
def test_preemptive(library: Library, count: int) -> None:
    """Under policy 1 all have the same, whatever their weights, and nothing is left unused."""
    with card(library, WEIGHT, enforce=ENFORCE) as one:
        boxes = greedy(one, WEIGHTS[count])
        one.write("0/policy", PREEMPTIVE)
        found = one.shares(boxes, TEN)
    assert near(parts(found), [1 / count] * count, 0.01), found
    assert sum(found) > 0.95


@pytest.mark.enforcement
@pytest.mark.parametrize("count", [1, 2, 5, 25])
@pytest.mark.parametrize("policy", [FAIR, FIXED])
def test_caps(library: Library, policy: int, count: int) -> None:
    """Under policies 0 and 3 nobody has more than its part of the card, alone or beside others."""
    weights = {1: [5], **WEIGHTS}[count]
    with card(library, policy, slice_ns=10 * MS, enforce=ENFORCE) as one:
        found = one.shares(greedy(one, weights), TEN)
    wanted = [(weight if policy == FIXED else 1) / 25 for weight in weights]
    assert near(found, wanted, 0.01), found
    assert all(share <= most + 0.001 for share, most in zip(found, wanted, strict=True)), found


@pytest.mark.parametrize("policy", [PREEMPTIVE, SOFT])
def test_nothing_is_held_for_the_idle(library: Library, policy: int) -> None:
    """Under policies 1 and 4 a container with an idle process takes nothing from one that works."""
    with card(library, policy, enforce=ENFORCE) as one:
        busy, idle = one.box(), one.box()
        one.greedy(busy)
        one.group(one.worker(idle), MS)
        found = one.shares([busy, idle], SECOND)
    assert found[0] > 0.99
    assert found[1] == 0


def test_time_is_held_for_the_idle(library: Library) -> None:
    """Under policy 2 a registered container keeps its part, used or not; a lone one has all."""
    with card(library, WEIGHT) as one:
        first = one.box(1)
        one.greedy(first)
        assert one.shares([first], SECOND)[0] > 0.99
        second = one.box(3)
        one.run(10 * MS)
        assert one.shares([first], SECOND)[0] == pytest.approx(0.25, abs=0.01)
        one.remove(second)
        one.run(10 * MS)
        assert one.shares([first], SECOND)[0] > 0.99


@pytest.mark.enforcement
@pytest.mark.parametrize("ratio", [20, 80, 99])
@pytest.mark.parametrize("policy", [FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT])
def test_priority(library: Library, policy: int, ratio: int) -> None:
    """A container of high priority has prio_ratio of the time beside two greedy ones."""
    with card(library, policy, slice_ns=10 * MS, enforce=ENFORCE) as one:
        one.write("0/prio_ratio", ratio)
        boxes = [one.box(highprio=True), one.box(), one.box()]
        for box in boxes:
            one.greedy(box)
        found = one.shares(boxes, TEN)
    assert found[0] == pytest.approx(ratio / 100, abs=0.011), found
    assert found[1] == pytest.approx(found[2], abs=0.002), found


@pytest.mark.parametrize("policy", [FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT])
def test_changes_under_load(library: Library, policy: int) -> None:
    """Who comes, goes or has another weight has its new part two rounds later, and no work is lost."""
    with card(library, policy) as one:
        boxes = greedy(one, [1, 1], max_inst=4)
        one.run(SECOND)
        boxes.append(one.box())
        one.greedy(boxes[-1])
        one.run(2 * 4 * 2 * MS)
        total = 4 if policy in (FAIR, FIXED) else 3
        found = one.shares(boxes, 4 * SECOND)
        assert near(found, [1 / total] * 3, 0.05), found
        one.remove(boxes.pop(0))
        one.write(f"0/{boxes[0].name}/weight", 3)
        if policy == PREEMPTIVE:
            one.write("0/policy", PREEMPTIVE)  # the weight has moved it
        one.run(2 * 4 * 2 * MS)
        found = one.shares(boxes, 4 * SECOND)
        even = policy in (FAIR, PREEMPTIVE)
        total = 4 if policy != PREEMPTIVE else 2
        assert near(found, [(1 if even else 3) / total, 1 / total], 0.05), found


def test_policy_changes_under_load(library: Library) -> None:
    """Each policy holds after any other."""
    with card(library, NATIVE) as one:
        boxes = greedy(one, [1, 2], max_inst=4)
        wanted = {
            FAIR: [0.25, 0.25],
            PREEMPTIVE: [0.5, 0.5],
            WEIGHT: [1 / 3, 2 / 3],
            FIXED: [0.25, 0.5],
            SOFT: [1 / 3, 2 / 3],
        }
        for policy in (WEIGHT, FIXED, SOFT, FAIR, SOFT, PREEMPTIVE, WEIGHT, PREEMPTIVE, FIXED, FAIR):
            one.write("0/policy", policy)
            one.run(2 * 4 * 2 * MS)
            found = one.shares(boxes, SECOND)
            assert near(found, wanted[policy], 0.06), (policy, found)
        one.write("0/policy", NATIVE)
        one.run(MS)
        assert sum(one.shares(boxes, SECOND)) > 0.95


@pytest.mark.parametrize("policy", [PREEMPTIVE, WEIGHT])
@pytest.mark.parametrize(("groups", "processes"), [(8, 1), (1, 8), (4, 4)])
def test_more_groups_are_not_more_time(library: Library, policy: int, groups: int, processes: int) -> None:
    """Channel groups and processes of a container divide what one would have."""
    with card(library, policy, slice_ns=4 * MS) as one:
        many, single = one.box(), one.box()
        for _ in range(processes):
            one.greedy(many, groups=groups)
        one.greedy(single)
        found = one.shares([many, single], TEN)
    # Each group's context has to be loaded: that is its own loss.
    assert parts(found)[0] <= 0.505, found
    assert parts(found)[0] >= 0.45, found


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [PREEMPTIVE, SOFT])
def test_own_time_slice(library: Library, policy: int) -> None:
    """A container that asks for a long time slice is told yes, and has what it had."""
    with card(library, policy, enforce=ENFORCE) as one:
        boxes = [one.box(), one.box()]
        workers = [one.greedy(box) for box in boxes]
        one.run(SECOND)
        form = one.driver.form("NVA06C_CTRL_TIMESLICE_PARAMS")
        params = form.pack(timesliceUs=50_000)
        done = one.driver.control(workers[0].client, workers[0].groups[0], SET_TIMESLICE, params, How())
        assert (done.result, done.status) == (0, 0)
        found = one.shares(boxes, TEN)
    assert near(parts(found), [0.5, 0.5], 0.01), found


def test_group_after_group(library: Library) -> None:
    """Who makes group after group and works in each only once has no more than its part."""
    with card(library, WEIGHT) as one:
        busy, calm = one.box(), one.box()
        one.greedy(calm)
        one.run(SECOND)
        before = one.busy(calm)
        for _ in range(100):
            one.greedy(busy, groups=2)
            one.run(20 * MS)
        assert one.busy(calm) - before > 0.48 * 100 * 20 * MS


@pytest.mark.parametrize("policy", [WEIGHT, FIXED])
def test_long_kernels_are_paid_for(library: Library, policy: int) -> None:
    """Kernels that cannot be interrupted run on beyond a turn, and are taken from the next."""
    with card(library, policy) as one:
        one.write("0/max_inst", 3)
        boxes = [one.box(1), one.box(2)]
        one.greedy(boxes[0], 7 * MS, grain=0)
        one.greedy(boxes[1], 300 * US, grain=0)
        one.run(SECOND)
        found = one.shares(boxes, TEN)
    assert near(parts(found), [1 / 3, 2 / 3], 0.02), found


@pytest.mark.parametrize("policy", [FAIR, WEIGHT, FIXED])
def test_usage_is_what_the_card_says(library: Library, policy: int) -> None:
    """Where channels are enabled in turn, the tree has the card's figures, but for what each change costs."""
    with card(library, policy) as one:
        boxes = [one.box(), one.box(), one.box()]
        one.greedy(boxes[0])
        one.greedy(boxes[1])
        one.run(TEN)
        assert "usage_from=gates" in one.read("0/sched")
        for box in boxes[:2]:
            assert one.usage(box) == pytest.approx(one.busy(box), rel=0.04)
        assert one.usage(boxes[2]) == 0
