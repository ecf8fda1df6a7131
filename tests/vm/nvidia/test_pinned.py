# SPDX-License-Identifier: Apache-2.0
"""A container's own memory that NVIDIA's driver pins for the card."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.vm.harness.stage import Stage

pytestmark = pytest.mark.real_driver

LIMIT = 1024 * MIB
NO_MEMORY, NOT_SUPPORTED = 0x51, 0x56


@pytest.mark.enforcement
def test_pinned_memory_is_not_charged(staged: Stage) -> None:
    """Both calls pin it beside a full slice; it takes nothing of the card, and does not leave by export."""
    words = ["alloc=1G", "pin=4M", "via=heap", "pin=4M", f"expect={NOT_SUPPORTED:#x}", "export"]
    words += ["via=rm64", f"expect={NO_MEMORY:#x}", "alloc=2M", "free=all"]
    done = staged.slice("tenant", LIMIT).probe(*words)
    seen = staged.view()
    assert done.returncode == 0, done.text
    assert (seen.cards[0]["peak"], seen.cards[0]["used"], seen.used[0, "tenant"]) == (LIMIT, 0, 0)
