# SPDX-License-Identifier: Apache-2.0
"""Compute limits and utilisation; a limit is the share that the core's scheduler gives."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.smi.limits import compute_limit, with_limits, with_utilisation
from cgpu.smi.model import Container, Gpu
from cgpu.smi.scheduling import Scheduling
from tests.core.build import build_library
from tests.core.sched.binding import SLICE, Card, Load, Sched, load
from tests.policies import policies

NORMAL = {"memsize": 1, "weight": 1, "highprio": 0}
IDLE = Container("a", "a", NORMAL, used=0, pids=(), engine_time=0)
BUSY = replace(IDLE, directory="b", id="b", slice={**NORMAL, "weight": 3}, pids=(7,))
BOTH = (IDLE, BUSY)
CARD = Gpu(
    0, "GPU-1", "Tesla T4", 1, max_inst=20, prio_ratio=80, total=10, containers=BOTH, rule=policies()[1]
)


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        (0, [5.0, 5.0]),
        (1, [50.0, 100.0]),
        (2, [25.0, 75.0]),
        (3, [5.0, 15.0]),
        (4, [25.0, 100.0]),
        (5, [100.0, 100.0]),
        (9, [None, None]),
    ],
)
def test_policies(policy: int, limits: list[float | None]) -> None:
    """Each policy gives an idle container of weight 1 and a busy one of weight 3 its share."""
    shown = with_limits(replace(CARD, policy=policy, rule=policies().get(policy)))
    assert [one.limit for one in shown.containers] == limits


@pytest.mark.parametrize(
    "card",
    [
        replace(CARD, max_inst=None),
        replace(CARD, prio_ratio=None),
        replace(CARD, rule=None),
        replace(CARD, containers=(IDLE, replace(BUSY, slice={**NORMAL, "weight": None}))),
        replace(CARD, containers=(IDLE, replace(BUSY, slice={**NORMAL, "highprio": None}))),
    ],
)
def test_unknown_settings(card: Gpu) -> None:
    """A limit that depends on what is not known is not known."""
    assert [one.limit for one in with_limits(card).containers] == [None, None]


COUNTED = replace(CARD, scheduling=Scheduling(usage_from="gates"))


def share(gpu: Gpu, before: int | None, after: int | None, elapsed: float) -> float | None:
    looks = [
        replace(gpu, containers=(replace(IDLE, engine_time=time, read_at=at),))
        for time, at in ((before, 7.0), (after, 7.0 + elapsed))
    ]
    return with_utilisation((looks[0],), (looks[1],))[0].containers[0].utilisation


@pytest.mark.parametrize(
    ("before", "after", "elapsed", "expected"),
    [
        (1_000, 500_001_000, 1.0, 50.0),
        (0, 500_000_000, 2.0, 25.0),
        (1_000, 1_000, 1.0, 0.0),
        (0, 0, 1.0, 0.0),
        (1, 3_000_000_000, 1.0, 100.0),
        (500, 400, 1.0, None),
        (1, 2, 0.0, None),
        (None, 2, 1.0, None),
        (1, None, 1.0, None),
    ],
)
def test_utilisation(before: int | None, after: int | None, elapsed: float, expected: float | None) -> None:
    """Utilisation is the counter's growth over the time between its two reads."""
    assert share(COUNTED, before, after, elapsed) == expected


@pytest.mark.parametrize(
    ("source", "before", "expected"),
    [(None, 0, None), (None, 1, 50.0), ("none", 1, None), ("samples", 0, 50.0)],
)
def test_who_counts(source: str | None, before: int, expected: float | None) -> None:
    """A counter is believed where the engine measures, and where it does not say so, when it is not 0."""
    gpu = replace(CARD, scheduling=Scheduling(usage_from=source))
    assert share(gpu, before, before + 500_000_000, 1.0) == expected


def test_another_container() -> None:
    """A directory that another container has taken over shows no utilisation, nor does a new one."""
    first = replace(IDLE, engine_time=5)
    other = replace(first, id="z", engine_time=9, read_at=1.0)
    looks = [(replace(COUNTED, containers=(one,)),) for one in (first, other)]
    shown = with_utilisation(looks[0], looks[1])[0]
    assert (shown.containers[0].utilisation, shown.interval) == (None, None)
    (shown,) = with_utilisation((replace(COUNTED, containers=()),), (COUNTED,))
    assert [one.utilisation for one in shown.containers] == [None, None]


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
        pids = (1,) if has else ()
        values = {"memsize": 1, "weight": weight, "highprio": int(high)}
        shown.append(Container(str(slot), str(slot), values, 0, pids, 0))
    gpu = Gpu(0, "GPU-1", "Tesla T4", policy, places, ratio, 1, tuple(shown), rule=policies()[policy])
    got = card.shares(400 * max(places, 25) * SLICE)
    for slot, one in enumerate(shown):
        if one.pids:
            limit = compute_limit(gpu, one)
            assert limit is not None
            assert 100 * got[slot] == pytest.approx(limit, abs=0.6, rel=0.01), f"slot {slot} of {members}"
