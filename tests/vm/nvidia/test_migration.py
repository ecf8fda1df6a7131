# SPDX-License-Identifier: Apache-2.0
"""Managed memory that NVIDIA's UVM moves to the card is what the engine has charged for it."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.vm.harness.node import build_fake_driver
from tests.vm.harness.stage import Stage

pytestmark = pytest.mark.real_driver

LIMIT = 512 * MIB
NO_MEMORY = 0x51
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
    program = build_fake_driver(staged.machine.kernel) / "uvm-probe"
    process = staged.start(staged.slice("tenant", LIMIT), program, *words, "used", "hold=1000")
    process.await_output("used status", timeout=staged.machine.scaled(SECONDS))
    seen = staged.view()
    assert (seen.cards[0]["used"], seen.cards[0]["peak"], seen.used[0, "tenant"]) == (LIMIT,) * 3
    assert "migrate status=0x0" in process.finished().stdout
    process.stop()
    assert staged.view().cards[0]["used"] == 0
