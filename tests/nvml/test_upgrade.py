# SPDX-License-Identifier: Apache-2.0
"""A daemon follows another one while the driver limits containers."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.daemon.harness import MIB
from tests.daemon.upgrades import Steady, upgrade
from tests.integration.commands import eventually
from tests.nvml.harness import LimitedDaemon
from tests.nvml.test_limits import LIMIT, OVER, SLICE, WELL, holding

pytestmark = pytest.mark.root

PAUSE_MS = 10_000.0  # as in tests/daemon/upgrade/test_upgrade.py
SLOW_MS = 300


@pytest.mark.enforcement
def test_limits_and_figures_stay(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Limits hold throughout, figures are the driver's, and no call of who allocates fails."""
    daemon = make_limited("T4:2")
    held = holding(daemon, 1, f"{SLICE} gpu=1:{LIMIT}", WELL, "alloc=1000M")
    load = [Steady(daemon, n, f"gpu=0:{512 * MIB}", 1000) for n in (2, 3)]
    longest = []
    for _ in range(int(os.environ.get("CGPU_UPGRADES", "3"))):
        for one in load:
            one.look()
        before = [daemon.limit_of(one) for one in (held, *(one.sliced for one in load))]
        result = upgrade(daemon)
        assert result["done"]
        assert daemon.backend() == "driver"
        assert [daemon.limit_of(one) for one in (held, *(one.sliced for one in load))] == before
        assert daemon.limit_of(held, 1) == LIMIT
        assert daemon.used(held) == daemon.charged(held) == 1000 * MIB
        figures = [one.look() for one in load]
        assert all(one.failed == 0 and one.calls > 0 for one in figures), figures
        longest.append(max(one.longest_ms for one in figures))
    print(f"the longest call in each upgrade, in ms: {longest}")
    assert max(longest) < PAUSE_MS
    daemon.enter(held, OVER, "alloc=6G").succeeds()
    daemon.write(f"1/{held.id[:12]}/memsize", str(LIMIT + MIB))
    assert daemon.limit_of(held, 1) == LIMIT + MIB
    held.finish("\n")
    eventually(lambda: not daemon.is_registered(held.id), "it is reclaimed")
    assert daemon.limit_of(held) is None


@pytest.mark.enforcement
def test_a_slow_library_is_not_waited_for(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Containers do not wait for what the library takes to tell of each of them."""
    daemon = make_limited()
    held = [holding(daemon, n, f"gpu=0:{512 * MIB}", WELL, "alloc=100M") for n in range(1, 5)]
    load = Steady(daemon, 9, f"gpu=0:{512 * MIB}", 1000)
    before = [daemon.limit_of(one) for one in held]
    daemon.fault(delay_ms=SLOW_MS)
    load.look()
    result = upgrade(daemon)
    figures = load.look()
    daemon.fault(delay_ms=0)
    assert result["pause_ms"] < SLOW_MS * len(held)
    assert figures.failed == 0
    assert [daemon.limit_of(one) for one in held] == before
    assert [daemon.used(one) for one in held] == [100 * MIB] * len(held)
