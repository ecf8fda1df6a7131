# SPDX-License-Identifier: Apache-2.0
"""The module's memory inside of NVIDIA's driver: a full memory cgroup of the caller delays nothing there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.attacks.build import FREED, client
from tests.vm.harness.machine import Machine
from tests.vm.harness.slices import Stage
from tests.vm.nvidia.managed_memory import LIMIT, SECONDS, hold_managed_memory

pytestmark = [pytest.mark.real_driver, pytest.mark.enforcement]

# Functions of the module that the driver, or UVM, comes to with locks that other containers wait for.
MAPS, PAGES = "ready_mapping", ("pages_chunks", "pages_allocate")
ENTRY = "rm_ioctl"
BEGIN = """
cd /sys/kernel/tracing
echo 32768 >buffer_size_kb
echo 1 >options/stacktrace
for event in kmalloc kmem_cache_alloc; do
	echo 'comm ~ "uvm-probe*" || comm ~ "kept_mapping*"' >events/kmem/$event/filter
	echo 1 >events/kmem/$event/enable
done
"""
END = """
cd /sys/kernel/tracing
for event in kmalloc kmem_cache_alloc; do echo 0 >events/kmem/$event/enable; done
echo 0 >options/stacktrace
cat trace
echo >trace
"""


@dataclass
class Allocations:
    """Each allocation of the two programs: its line, with the functions that it was made in."""

    charged: list[str] = field(default_factory=list)
    uncharged: list[str] = field(default_factory=list)

    def read(self, trace: str) -> None:
        for allocation in re.split(r"^(?=.*gfp_flags=)", trace, flags=re.MULTILINE):
            charged = re.search(r"ACCOUNT|accounted=true", allocation)
            (self.charged if charged else self.uncharged).append(allocation)


@contextmanager
def traced(machine: Machine) -> Iterator[Allocations]:
    found = Allocations()
    machine.shell(BEGIN)
    try:
        yield found
    finally:
        found.read(machine.shell(END, timeout=SECONDS).stdout)


def use_managed_memory(staged: Stage) -> None:
    """Fill the slice, so that UVM gives back in the end what it has on the card."""
    hold_managed_memory(staged, "managed").stop()


def map_memory(staged: Stage) -> None:
    process = staged.start(staged.slice("maps", LIMIT), client("kept_mapping", FREED), "neighbour", "card")
    process.await_output("ready", timeout=staged.machine.scaled(SECONDS))
    process.write("\n")
    process.await_output("has made=32", timeout=staged.machine.scaled(SECONDS))
    process.stop()


def test_nothing_is_charged_with_the_drivers_locks(staged: Stage) -> None:
    """At its limit a container reclaims before it has the locks, or is refused there."""
    with traced(staged.machine) as found:
        use_managed_memory(staged)
        map_memory(staged)
    assert any(ENTRY in one for one in found.charged)
    assert any(name in one for one in found.uncharged for name in PAGES)
    assert not [one for one in found.charged if any(name in one for name in (MAPS, *PAGES))]
