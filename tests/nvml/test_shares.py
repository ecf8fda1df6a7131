# SPDX-License-Identifier: Apache-2.0
"""GPU time is divided too where the driver limits memory."""

from __future__ import annotations

import pytest

from tests.daemon.work import Crew, near
from tests.nvml.harness import LimitedDaemon

pytestmark = pytest.mark.root

PREEMPTIVE, WEIGHT, SOFT = 1, 2, 4


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_time_is_divided(limited: LimitedDaemon, policy: int) -> None:
    """By channel enable, and by the card's timeslices."""
    assert Crew.at_work(limited, policy, 1, 2).shares() == [near(1 / 3), near(2 / 3)]


@pytest.mark.enforcement
def test_the_tree_says_who_divides(limited: LimitedDaemon) -> None:
    """As it does where the core limits memory."""
    assert limited.backend() == "driver"
    for policy, who in ((WEIGHT, "gates"), (PREEMPTIVE, "time_slices")):
        limited.write("0/policy", f"{policy}\n")
        assert f"divided_by={who}" in limited.read("0/sched")
