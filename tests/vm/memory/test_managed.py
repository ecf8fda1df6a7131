# SPDX-License-Identifier: Apache-2.0
"""Managed memory, which UVM takes by itself: charged by the length of its mapping, on each of its cards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.commands import eventually
from tests.vm.harness.process import Finished, Process
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.harness.slices import GIB, Slice, create, slice_of

MIB = 1 << 20
NOT_ALLOWED = "expect=0x80000001"  # EPERM
FULL = "expect=0x51"  # NV_ERR_NO_MEMORY
TAKEN = "expect=0x68"  # NV_ERR_UVM_ADDRESS_IN_USE
PARAMETER = "/sys/module/cgpu_km/parameters/managed_memory"


class Tenant:
    """A container with one GiB, and the program that uses UVM in it."""

    def __init__(self, node: SlicedNode) -> None:
        self.node = node
        self.slice: Slice = slice_of(node.machine, "tenant")
        self.program = node.machine.seen(uvm_probe())
        self.processes: list[Process] = []

    def run(self, *words: str) -> Finished:
        return self.slice.run(self.program, "uvm", *words).check()

    def hold(self, *words: str) -> Process:
        process = self.slice.start(self.program, "uvm", *words, "used", "hold=1000")
        process.await_output("used status", timeout=self.node.machine.scaled(60))
        self.processes.append(process)
        return process

    def used(self) -> tuple[int, int]:
        """Return its charges, and the card's given memory, in MiB."""
        view = self.node.view()
        return view.used[0, "tenant"] // MIB, view.cards[0]["used"] // MIB

    def rest(self, *words: str) -> tuple[int, int]:
        process = self.hold(*words)
        used = self.used()
        process.stop(self.node.machine.scaled(30))
        eventually(lambda: self.used() == (0, 0), "all is given back", self.node.machine.scaled(10))
        return used

    def end(self) -> None:
        for process in self.processes:
            if process.running:
                process.stop(self.node.machine.scaled(30))
        self.slice.end()


@pytest.fixture
def tenant(node: SlicedNode) -> Iterator[Tenant]:
    made = Tenant(node)
    yield made
    made.end()


@pytest.mark.real_driver
def test_parts_of_a_mapping(tenant: Tenant) -> None:
    """Unmapped memory is given back in whole pieces; the last byte gives back the rest."""
    assert tenant.rest("managed=64M", "munmap=16M") == (48, 0)
    assert tenant.rest("managed=64M", "munmap=3M", "munmap=3M") == (60, 0)
    assert tenant.rest("managed=64M", "munmap=16M", "munmap") == (0, 0)
    assert tenant.rest("managed=4K") == (2, 0)


@pytest.mark.real_driver
@pytest.mark.enforcement
def test_what_finds_its_place_taken_gives_nothing_back(tenant: Tenant) -> None:
    """A range that UVM takes apart because something is there already ends no charge."""
    assert tenant.rest("managed=1G", TAKEN, "over-range", FULL, "alloc=2M") == (1024, 0)


@pytest.mark.real_driver
def test_pools_of_semaphores_are_mapped(tenant: Tenant) -> None:
    """They are the host's memory: a full slice and a node without managed memory have them."""
    assert tenant.rest("alloc=1G", "pool=2M") == (1024, 1024)
    tenant.node.machine.shell(f"echo N >{PARAMETER}")
    tenant.run("pool=2M", NOT_ALLOWED, "managed=2M")
    tenant.node.machine.shell(f"echo Y >{PARAMETER}")
    tenant.run("pool=2M", "managed=2M")


@pytest.mark.fake_driver("two cards")
@pytest.mark.enforcement
def test_each_card_of_the_container_is_charged(node: SlicedNode) -> None:
    """Managed memory can go to each card: the smallest slice is its limit."""
    node.use("T4:2")
    both = slice_of(node.machine, "tenant", f"0:{GIB}", f"1:{GIB // 2}")
    both.probe("expect-errno=12", "managed=1G").check()
    process = both.hold("managed=256M")
    assert node.view().used == {(0, "tenant"): 256 * MIB, (1, "tenant"): 256 * MIB}
    process.stop(node.machine.scaled(30))
    eventually(lambda: set(node.view().used.values()) == {0}, "all is given back", node.machine.scaled(10))
    both.end()


@pytest.mark.real_driver
def test_memory_of_a_removed_container_is_promised_to_nobody(node: SlicedNode) -> None:
    """While a process is left over with a mapping, no other gets its memory; then it is there again."""
    tenant = Tenant(node)
    process = tenant.hold("managed=512M", "touch=512M")
    size = node.view().cards[0]["total"]
    node.write("inst_ctl", "destroy id=tenant").check()
    _, refused = create(node.machine, "other", f"0:{size}")
    process.stop(tenant.node.machine.scaled(30))
    eventually(lambda: node.view().cards[0]["used"] == 0, "all is given back", node.machine.scaled(10))
    assert refused.returncode != 0, refused.text
