# SPDX-License-Identifier: Apache-2.0
"""The fake driver meets the engine's probes as NVIDIA's driver does: in which order, and in what context."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm.harness.machine import Machine
from tests.vm.harness.node import insmod, load_version, rmmod, unload_driver, versions
from tests.vm.harness.slices import PROBE
from tests.vm.nvidia.driver import build_hardware

OBSERVER = "/proc/opencgpu_observer"
# Each with what was ever so when it began, under the steps below; without anything: no step leads there.
CONTEXTS = {
    "rm_ioctl": "called",
    "os_memcpy_from_user": "called",
    "os_memcpy_to_user": "called",
    "nv_get_file_private": "called",
    "nvidia_dev_get": "",
    "rm_cleanup_file_private": "called",
    "uvm_va_range_create_mmap": "called mmap-locked",
    "uvm_va_range_destroy": "called mmap-locked",
    "uvm_va_space_destroy": "called kernel",
    "uvm_open_entry": "called",
    "uvm_unlocked_ioctl_entry": "called",
    "uvm_mmap_entry": "called mmap-locked",
    "uvm_release_entry": "called kernel",
    "nvidia_close": "called",
    "nvUvmInterfaceDupMemory": "",
    "nv_dma_buf_export": "",
}
# The engine probes them when the module is coming: nothing of it can be reached then.
EVENTS = """\
nvidia coming: version-file=0 device-numbers=0 function=1
nvidia live: version-file=1 device-numbers=1 function=1
nvidia going: version-file=0 device-numbers=0 function=0
nvidia coming: version-file=0 device-numbers=0 function=1
nvidia live: version-file=1 device-numbers=1 function=1
"""
STEPS = (
    "alloc=64M",
    "dup",
    "export",
    "import",
    "close-export",
    "alloc=1T",
    "expect=0x51",
    "managed=4M",
    "unmanaged",
)


@pytest.fixture(scope="module", params=versions())
def observed(request: pytest.FixtureRequest, machine: Machine) -> Iterator[str]:
    """Return what the observer has seen of a driver that was loaded twice and used."""
    insmod(
        machine, build_hardware(machine.kernel) / "opencgpu_observer.ko", f"functions={','.join(CONTEXTS)}"
    )
    load_version(machine, request.param)
    unload_driver(machine)
    load_version(machine, request.param)
    machine.shell(f"echo >{OBSERVER}")
    machine.run([machine.seen(PROBE), *STEPS], check=False)
    yield machine.read_file(OBSERVER).decode()
    rmmod(machine, "opencgpu_observer")
    unload_driver(machine)


def test_order_of_events(observed: str) -> None:
    """Functions are there before files and device numbers are, and go after them."""
    assert "".join(f"{line}\n" for line in observed.splitlines() if line.startswith("nvidia ")) == EVENTS


def test_proc_files_are_not_for_kernel_modules(observed: str) -> None:
    """kernel_read() of the driver's files fails: what a module wants to know it must ask the driver."""
    assert "kernel_read of the version: -22" in observed.splitlines()


@pytest.mark.parametrize("name", CONTEXTS)
def test_context(observed: str, name: str) -> None:
    """A function that the engine probes may sleep, and has the locks around it that the engine expects."""
    line = next(line for line in observed.splitlines() if line.startswith(f"{name}:"))
    assert line.removeprefix(f"{name}:").strip() == CONTEXTS[name]
