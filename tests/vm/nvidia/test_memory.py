# SPDX-License-Identifier: Apache-2.0
"""Managed memory that NVIDIA's UVM moves to the card, and a container's own that its driver pins."""

from __future__ import annotations

import pytest

from tests.vm.harness.slices import Stage
from tests.vm.nvidia.managed_memory import LIMIT, NO_MEMORY, hold_managed_memory

pytestmark = pytest.mark.real_driver

NOT_SUPPORTED = 0x56


@pytest.mark.enforcement
def test_managed_memory_on_the_card_is_in_the_limit(staged: Stage) -> None:
    """The card gives out what was charged when it was mapped, and no more beside it than the limit."""
    process = hold_managed_memory(staged, "tenant")
    seen = staged.view()
    assert (seen.cards[0]["used"], seen.cards[0]["peak"], seen.used[0, "tenant"]) == (LIMIT,) * 3
    assert "migrate status=0x0" in process.finished().stdout
    process.stop()
    assert staged.view().cards[0]["used"] == 0


@pytest.mark.enforcement
def test_pinned_memory_is_not_charged(staged: Stage) -> None:
    """Both calls pin it beside a full slice; it takes nothing of the card, and does not leave by export."""
    words = ["alloc=512M", "pin=4M", "via=heap", "pin=4M", f"expect={NOT_SUPPORTED:#x}", "export"]
    words += ["via=rm64", f"expect={NO_MEMORY:#x}", "alloc=2M", "free=all"]
    done = staged.slice("tenant", LIMIT).probe(*words)
    seen = staged.view()
    assert done.returncode == 0, done.text
    assert (seen.cards[0]["peak"], seen.cards[0]["used"], seen.used[0, "tenant"]) == (LIMIT, 0, 0)
