# SPDX-License-Identifier: Apache-2.0
"""Random allocations in all ways on NVIDIA's driver: a container never has more of the card than its slice.

With CGPU_VM_FULL=1 and CGPU_VM_FUZZ_SECONDS=3600 each of three seeds goes on for an hour.
"""

from __future__ import annotations

import os

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.harness.counts import count
from tests.vm.harness.node import read
from tests.vm.harness.sliced_node import PAGE_MARGIN
from tests.vm.harness.slices import Stage, figures
from tests.vm.programs import build

LIMIT = 512 * MIB
MOST = 15000 * MIB  # of the card, which the driver does not give whole
STEPS = count(250, 2000)
LONGER = int(os.environ.get("CGPU_VM_FUZZ_SECONDS", "0"))
SECONDS = 200
POOLED = MIB  # that the driver keeps for the card after so many calls

pytestmark = [pytest.mark.real_driver, pytest.mark.timeout(300 + 2 * LONGER)]


@pytest.mark.enforcement
@pytest.mark.parametrize("seed", count((1,), (1, 2, 3)))
def test_no_step_takes_more_than_the_slice(staged: Stage, seed: int) -> None:
    """Classes, flags, frees, duplicates, exports, UVM, deaths: none gets more, and nothing stays unnamed."""
    staged.pooled = POOLED
    tenant = staged.slice("tenant", LIMIT)
    words = (build("alloc_fuzz"), seed, STEPS, LONGER)
    told = figures(staged.start(tenant, *words), staged.machine.scaled(SECONDS) + LONGER)
    seen = staged.view(agreeing=False)
    print(told, seen)
    assert told["steps"] >= STEPS
    assert seen.cards[0]["driver_peak"] <= LIMIT + PAGE_MARGIN, seen
    assert seen.cards[0]["chunks_peak"] <= LIMIT + PAGE_MARGIN, seen
    tenant.end()
    tenant.await_gone()
    # UVM keeps free chunks, as long as it has the card, until another needs them.
    neighbour = staged.slice("neighbour", MOST)
    assert neighbour.probe("fill=2M").returncode == 0
    neighbour.end()
    neighbour.await_gone()
    eventually(
        lambda: (seen := staged.view()).cards[0]["used"] == seen.left,
        "what is left on the card is shown",
        staged.machine.scaled(SECONDS),
        lambda: (
            staged.view(),
            read(staged.machine, "0/left"),
            staged.machine.shell("dmesg | tail -20").stdout,
        ),
    )
