# SPDX-License-Identifier: Apache-2.0
"""Compute limits; a limit is the share that the core's scheduler gives."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.limits import Member, shares
from tests.core.build import build_library
from tests.core.sched.binding import SLICE, Card, Load, Sched, load
from tests.policies import policies

IDLE, BUSY = Member(1, high=False, busy=False), Member(3, high=False, busy=True)


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        (0, (5.0, 5.0)),
        (1, (50.0, 100.0)),
        (2, (25.0, 75.0)),
        (3, (5.0, 15.0)),
        (4, (25.0, 100.0)),
        (5, (100.0, 100.0)),
        (9, (None, None)),
    ],
)
def test_policies(policy: int, limits: tuple[float | None, ...]) -> None:
    """Each policy gives an idle container of weight 1 and a busy one of weight 3 its share."""
    assert shares(policies().get(policy), 20, 80, (IDLE, BUSY)) == limits


MEMBER = st.tuples(st.integers(0, 5), st.booleans(), st.booleans())
"""Weight, high priority, has a process."""


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return load(build_library("library"))


@given(
    policy=st.sampled_from([number for number, policy in policies().items() if not policy.undivided]),
    places=st.integers(1, 25),
    ratio=st.sampled_from([20, 50, 80]),
    by_gates=st.booleans(),
    members=st.lists(MEMBER, min_size=1, max_size=5),
)
def test_limits_are_what_the_scheduler_gives(
    library: ctypes.CDLL,
    *,
    policy: int,
    places: int,
    ratio: int,
    by_gates: bool,
    members: list[tuple[int, bool, bool]],
) -> None:
    """While all with processes have work, each gets the share that is shown for it."""
    sched = Sched(library, policy, places, ratio, int(not by_gates))
    card, shown = Card(sched), []
    for slot, (weight, high, has) in enumerate(members):
        card.join(slot, weight, Load() if has else Load(busy=0, idle=1), int(high))
        if not has:
            sched.must("process", slot, 0, 0)
        shown.append(Member(weight, high, has))
    limits = shares(policies()[policy], places, ratio, tuple(shown))
    got = card.shares(400 * max(places, 25) * SLICE)
    for slot, one in enumerate(shown):
        if one.busy:
            limit = limits[slot]
            assert limit is not None
            assert 100 * got[slot] == pytest.approx(limit, abs=0.6, rel=0.01), f"slot {slot} of {members}"
