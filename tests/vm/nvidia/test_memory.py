# SPDX-License-Identifier: Apache-2.0
"""Managed memory that NVIDIA's UVM moves to the card, and a container's own that its driver pins."""

from __future__ import annotations

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.engine import MIB
from tests.vm.harness.slices import Stage

pytestmark = pytest.mark.real_driver

LIMIT = 512 * MIB
NO_MEMORY, NOT_SUPPORTED = 0x51, 0x56
SECONDS = 120


@pytest.mark.enforcement
def test_managed_memory_on_the_card_is_in_the_limit(staged: Stage) -> None:
    """The card gives out what was charged when it was mapped, and no more beside it than the limit."""
    words = [
        "uvm",
        "managed=256M",
        "touch=256M",
        "migrate",
        "alloc=256M",
        f"expect={NO_MEMORY:#x}",
        "alloc=2M",
    ]
    process = staged.start(staged.slice("tenant", LIMIT), uvm_probe(), *words, "used", "hold=1000")
    process.await_output("used status", timeout=staged.machine.scaled(SECONDS))
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
