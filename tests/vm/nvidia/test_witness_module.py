# SPDX-License-Identifier: Apache-2.0
"""The witness beside the module: two counts of a container's pages, made in different ways, are the same."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.vm.harness.slices import FREEZE, Slice, Stage
from tests.vm.nvidia.witness import SECONDS, GuestWitness, begin_witness
from tests.vm.programs import build

pytestmark = pytest.mark.real_driver

LIMIT = 512 * MIB
MOST = 15000 * MIB  # of the card, which the driver does not give whole
POOLED = MIB  # that the driver keeps for the card after so many calls
STEPS = 250


def agree(staged: Stage, watched: GuestWitness, tenant: Slice) -> int:
    """Check that both say the same of a slice without managed memory; return it."""
    used = staged.view(agreeing=False).used[0, tenant.name]
    shown = watched.of(tenant.name)
    print(used, watched.show())
    assert used == shown
    return used


@pytest.mark.enforcement
def test_each_step_agrees(staged: Stage) -> None:
    """Memory, page tables, groups; refused calls, and the end of a process: module and witness agree."""
    watched = begin_witness(staged.machine)
    tenant = staged.slice("tenant", LIMIT)
    watched.watch("tenant")
    assert agree(staged, watched, tenant) == 0
    first = tenant.hold("alloc=256M", "alloc=1M:64k", "group")
    assert agree(staged, watched, tenant) >= 257 * MIB
    second = tenant.hold("alloc=512M", "alloc=128M")
    assert 385 * MIB <= agree(staged, watched, tenant) < 512 * MIB
    first.stop()
    assert agree(staged, watched, tenant) < 160 * MIB
    second.finish(SECONDS)
    assert agree(staged, watched, tenant) < MIB
    watched.process.finish(SECONDS)


def test_random_allocations(staged: Stage) -> None:
    """The allocation fuzzer in a slice: each time it stands still, all that is given out is on record.

    The module calls the allocator in place of UVM, so chunks count as the container's here.
    """
    staged.pooled = POOLED
    watched = begin_witness(staged.machine)
    tenant = staged.slice("tenant", LIMIT)
    watched.watch("tenant")
    process = staged.start(tenant, build("alloc_fuzz"), 2, STEPS, 0)
    seen = set()
    while process.running and b"resting" not in process.out:
        staged.machine.shell(FREEZE, "tenant", "1", timeout=SECONDS)
        card, shown = staged.view(agreeing=False).cards[0], watched.show()
        staged.machine.shell(FREEZE, "tenant", "0", timeout=SECONDS)
        assert sum(shown.values()) == card["used"], (card, shown)
        seen.add(card["used"])
    print(sorted(seen))
    assert len(seen) > 5
    tenant.end()
    tenant.await_gone()
    # UVM keeps free chunks, as long as it has the card, until another needs them.
    neighbour = staged.slice("neighbour", MOST)
    assert neighbour.probe("fill=2M").returncode == 0
    assert sum(watched.show().values()) == staged.view(agreeing=False).cards[0]["used"] <= POOLED
    watched.process.finish(SECONDS)
