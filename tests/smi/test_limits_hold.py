# SPDX-License-Identifier: Apache-2.0
"""The limit that cgpu-smi shows is the share that the core's scheduler gives."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgpu.smi.limits import compute_limit
from cgpu.smi.model import Container, Gpu
from cgpu.smi.scheduling import POLICIES
from tests.core.build import build_library
from tests.core.sched.binding import SLICE, Card, Load, Sched, load

MEMBER = st.tuples(st.integers(0, 5), st.booleans(), st.booleans())
"""Weight, high priority, has a process."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the core."""
    return load(build_library(tmp_path_factory.mktemp("limits")))


@given(
    policy=st.sampled_from([number for number, policy in enumerate(POLICIES) if not policy.undivided]),
    places=st.integers(1, 25),
    ratio=st.sampled_from([20, 50, 80]),
    by_gates=st.booleans(),
    members=st.lists(MEMBER, min_size=1, max_size=5),
)
@settings(max_examples=150)
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
        shown.append(Container(str(slot), str(slot), weight, high, 1, 0, pids, 0))
    gpu = Gpu(0, "GPU-1", "Tesla T4", policy, places, ratio, 1, tuple(shown))
    got = card.shares(400 * max(places, 25) * SLICE)
    for slot, one in enumerate(shown):
        if one.pids:
            limit = compute_limit(gpu, one)
            assert limit is not None
            assert 100 * got[slot] == pytest.approx(limit, abs=0.6, rel=0.01), f"slot {slot} of {members}"
