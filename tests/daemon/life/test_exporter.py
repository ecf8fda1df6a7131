# SPDX-License-Identifier: Apache-2.0
"""What the exporter says of a slice is what the slice's program, and the simulated card, say."""

from __future__ import annotations

import pytest

from tests.daemon.conftest import SLICES, MakeDaemon
from tests.daemon.harness import MIB, Daemon
from tests.daemon.scraper import Scraper
from tests.daemon.work import PHASE, PHASES, Hand, near
from tests.integration.commands import eventually

REAL = 22 * MIB  # what a simulated T4 takes for a context
LIMIT = 512 * MIB
SHARE = 8 / 20  # weight out of max_inst
CONFIG = f"policy: 3\nmax_inst: 20\ncontext_memory: 0\ndrift_tolerance: {2 * REAL}\n{SLICES}"
MEMORY = ("alloc=300M:64k", "free=last", "alloc=100M:64k", "alloc=500M:64k")
UTILIZATION = ("opencgpu_slice_utilization_ratio", "opencgpu_gpu_utilization_ratio")


def seconds(scraper: Scraper) -> tuple[float, float]:
    """Return for how long the slice has computed, and waited."""
    names = ("opencgpu_slice_usage_seconds_total", "opencgpu_slice_throttled_seconds_total")
    return scraper.figure(names[0]), scraper.figure(names[1])


def is_unhealthy(scraper: Scraper) -> bool:
    return scraper.figure("opencgpu_gpu_healthy") == 0


def check_memory(daemon: Daemon, scraper: Scraper) -> None:
    """The slice has what its program has; its context, for which nobody is charged, is missing."""
    assert scraper.figure("opencgpu_slice_memory_limit_bytes") == LIMIT
    assert scraper.figure("opencgpu_slice_memory_used_bytes") == 100 * MIB
    assert scraper.figure("opencgpu_slice_memory_peak_bytes") == 300 * MIB
    # An interrupted call is made, and counted, again.
    assert scraper.figure("opencgpu_slice_memory_refusals_total", 'reason="limit"') >= 1
    assert scraper.figure("opencgpu_gpu_memory_used_bytes") == 100 * MIB
    missing = daemon.given() - 100 * MIB
    assert missing == REAL
    eventually(lambda: scraper.figure("opencgpu_gpu_memory_unaccounted_bytes") == missing, "unaccounted")


@pytest.mark.enforcement
def test_a_slice_that_computes(make_daemon: MakeDaemon) -> None:
    """Its share, GPU time and memory are those of the card, and what it lacks of the time is throttled."""
    daemon = make_daemon("T4", CONFIG)
    sliced = daemon.slice(1, f"gpu=0:{LIMIT}:8", *MEMORY, "group", *[PHASE] * PHASES, until="group")
    hand, scraper = Hand(sliced, 1), Scraper(daemon)
    hand.share()
    hand.share()
    begun, busy = seconds(scraper), hand.busy

    def agrees() -> bool:
        had = hand.share()
        used, waited = (new - old for new, old in zip(seconds(scraper), begun, strict=True))
        return (
            had == near(SHARE)
            and all(scraper.find(name) == pytest.approx(had, abs=0.05) for name in UTILIZATION)
            and used == pytest.approx((hand.busy - busy) / 1e9, rel=0.25)
            and waited == pytest.approx(used * (1 - SHARE) / SHARE, rel=0.25)
        )

    eventually(agrees, "share, GPU time and what is throttled are those of the card", instead=scraper.page)
    assert scraper.figure("opencgpu_slice_share_ratio") == pytest.approx(SHARE)
    check_memory(daemon, scraper)
    assert scraper.figure("opencgpu_gpu_healthy") == 1
    # Two more contexts exceed the tolerance.
    daemon.enter(sliced, "context=2", "hold", until="hold")
    eventually(lambda: is_unhealthy(scraper), "memory that lasts to be missing is no condition")
    assert scraper.figure("opencgpu_gpu_condition", 'condition="unaccounted_memory"') == 1
    assert scraper.figure("opencgpu_gpu_memory_unaccounted_bytes") == 3 * REAL
