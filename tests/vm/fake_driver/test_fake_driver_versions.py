# SPDX-License-Identifier: Apache-2.0
"""The fake driver as other versions, without some functions, and again and again."""

from __future__ import annotations

import pytest

from tests.vm.fake_driver.steps import EMPTY, PROBE, card, run_buffer_steps
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, unload_driver

pytestmark = pytest.mark.fake_driver("it is what is tested")

# Versions on both sides of each change of layout that is used here, and one that nobody knows.
VERSIONS = (
    "515.43.04",
    "550.40.07",
    "570.211.01",
    "575.51.02",
    "590.48.01",
    "595.45.04",
    "615.71.09",
    "999.99",
)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(machine: Machine, version: str) -> None:
    """Every version speaks with its own layouts."""
    load_driver(machine, version=version)
    assert machine.read_file("/sys/module/nvidia/version").decode() == f"{version}\n"
    done = machine.run([machine.seen(PROBE), "alloc=1G", "via=heap", "alloc=1M", "dup", "info", "free=all"])
    assert " total=15842934784 free=14768144384 " in done.stdout
    run_buffer_steps(machine, "alloc=1G", "dmabuf", "dmabuf-close")
    assert EMPTY in card(machine)
    unload_driver(machine)


def test_missing_function(machine: Machine) -> None:
    """A driver without a function of that name works as before."""
    load_driver(machine, without="rm_ioctl,nvUvmInterfaceDupMemory,uvm_mmap_entry")
    names = [line.split()[2] for line in machine.read_file("/proc/kallsyms").decode().splitlines()]
    assert not {"rm_ioctl", "nvUvmInterfaceDupMemory", "uvm_mmap_entry"} & set(names)
    machine.run([machine.seen(PROBE), "alloc=1M", "managed=2M", "unmanaged"])
    unload_driver(machine)


def test_reload(machine: Machine) -> None:
    """Loading, use and unloading repeat without end."""
    for _ in range(count(3, 20)):
        load_driver(machine, cards="A10=4096:2")
        run_buffer_steps(machine, "alloc=1G", "dmabuf")
        unload_driver(machine)
