# SPDX-License-Identifier: Apache-2.0
"""The entries `stat` count what happened. test_scrapes.py has the counters that outlive the daemon."""

from __future__ import annotations

import subprocess

import pytest

from cgpu.client import stat
from cgpu.client.tree import Tree
from tests.daemon.harness import MIB, Daemon, Sliced, next_line
from tests.daemon.work import Crew

SIX = f"gpu=0:{6043 * MIB}"
WEIGHT, SOFT = 2, 4


def slice_stat(daemon: Daemon, sliced: Sliced) -> stat.SliceStat:
    return next(one for one in Tree(str(daemon.tree)).gpu_stat(0).slices if one.id == sliced.id)


@pytest.mark.enforcement
def test_card_that_is_full_is_another_reason(fresh: Daemon) -> None:
    """A refusal by the driver, as a process outside of slices has the card's memory, is counted apart."""
    outside = subprocess.Popen(
        fresh.outside("alloc=12G", "hold"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    next_line(outside, "hold", [])
    sliced = fresh.slice(1, SIX, "alloc=5G", "alloc=5G", "alloc=7G", "hold", until="hold")
    assert slice_stat(fresh, sliced).refused == {"limit": 1, "card": 2, "unaccounted": 0}
    assert slice_stat(fresh, sliced).peak == 0
    outside.communicate("\n", timeout=60)
    sliced.finish("\n")


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT], ids=["channels", "timeslices"])
def test_who_competes_is_throttled_while_the_other_runs(daemon: Daemon, policy: int) -> None:
    """The time that a slice waited is about that which the other one had."""
    crew = Crew.at_work(daemon, policy, 1, 3)
    slices = [hand.sliced for hand in crew.hands]
    # The first looks at a card that has just begun to work are not whole.
    crew.shares()
    crew.shares()
    begun = [slice_stat(daemon, one) for one in slices]

    def agree(_: list[float]) -> bool:
        ended = [slice_stat(daemon, one) for one in slices]
        used = [(new.usage - old.usage) / 1e9 for new, old in zip(ended, begun, strict=True)]
        waited = [(new.throttled - old.throttled) / 1e9 for new, old in zip(ended, begun, strict=True)]
        return min(used) > 0.2 and waited == pytest.approx(used[::-1], rel=0.25)

    crew.await_phase(agree, "waits as long as the other one's work")
