# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's page allocator gives out for a container is the container's, whatever it was asked for."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.integration.probe import NO_MEMORY
from tests.vm.harness.sliced_node import PAGE_MARGIN
from tests.vm.harness.slices import Stage, figures
from tests.vm.programs import build

pytestmark = pytest.mark.real_driver

LIMIT = 512 * MIB
NEIGHBOUR = 4096 * MIB
FIXED = 0x10  # NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE
SECONDS = 300


@pytest.mark.enforcement
@pytest.mark.parametrize(("size", "count", "flags"), [(7 << 40, 1, FIXED), (64 << 30, 16, 0)])
def test_reservations_stop_at_the_slice(staged: Stage, size: int, count: int, flags: int) -> None:
    """Addresses take page tables before anything is mapped: the driver gives no more than the slice."""
    tenant = staged.slice("tenant", LIMIT)
    told = figures(
        staged.start(tenant, build("alloc_fuzz"), "reserve", size, count, flags),
        staged.machine.scaled(SECONDS),
    )
    seen = staged.view(agreeing=False)
    assert (told["status"], told["made"] < count) == (NO_MEMORY, True)
    assert seen.cards[0]["peak"] <= LIMIT + PAGE_MARGIN
    assert seen.used[0, "tenant"] == seen.cards[0]["used"]
    neighbour = staged.slice("neighbour", NEIGHBOUR)
    assert neighbour.probe(*["alloc=256M"] * 16).returncode == 0
