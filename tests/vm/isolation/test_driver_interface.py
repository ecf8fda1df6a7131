# SPDX-License-Identifier: Apache-2.0
"""The fake driver is to the outside what NVIDIA's driver is: one suite for both.

With CGPU_VM_DRIVER the tests here run on NVIDIA's driver of that version, otherwise on the fake one as each
version whose answers are known. What NVIDIA's driver has answered lies in tests/vm/nvidia/answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_version, unload_driver, versions
from tests.vm.programs import build

ANSWERS = Path(__file__).resolve().parents[1] / "nvidia" / "answers"
FRONTEND_UNTIL = 545  # in 535 and before all minors of major 195 belong to one device (nv-frontend.c)
INFORMATION = ["Model", "IRQ", "GPU UUID", "Video BIOS", "Bus Type", "DMA Size", "DMA Mask", "Bus Location",
               "Device Minor", "GPU Excluded"]  # fmt: skip
# Told where a card's firmware has told its version, which a fake GSP has not.
FIRMWARE = "GPU Firmware"
# What the engine probes or calls in nvidia.ko, where no version lacks it; and in nvidia-uvm.ko.
FUNCTIONS = (
    "nv_get_adapter_state", "nv_get_dev_minor", "nv_get_file_private", "nvidia_dev_get", "nvidia_get_rm_ops",
    "nvUvmInterfaceDupMemory", "nvUvmInterfaceFreeDupedHandle",
    "nvUvmInterfaceReleaseChannel", "nvUvmInterfaceRetainChannel", "os_memcpy_from_user", "os_memcpy_to_user",
    "rm_cleanup_file_private", "rm_dma_buf_dup_mem_handle", "rm_dma_buf_undup_mem_handle", "rm_ioctl",
)  # fmt: skip


@pytest.fixture(scope="module", params=versions())
def version(request: pytest.FixtureRequest, machine: Machine) -> Iterator[str]:
    load_version(machine, request.param)
    yield request.param
    unload_driver(machine)


def answers(version: str) -> list[str]:
    return (ANSWERS / f"{version}.txt").read_text().splitlines()


def test_answers(machine: Machine, version: str) -> None:
    """Right and wrong calls of every kind are answered as NVIDIA's driver of that version answers them."""
    done = machine.run([machine.seen(build("driver_answers"))])
    assert [line for line in done.stdout.splitlines() if line] == answers(version)


def test_device_numbers(machine: Machine, version: str) -> None:
    """The kernel's list names the devices by the names of that version."""
    listed = machine.read_file("/proc/devices").decode()
    names = re.findall(r"^ *195 (\S+)$", listed, re.MULTILINE)
    has_frontend = int(version.split(".", maxsplit=1)[0]) < FRONTEND_UNTIL
    # Modesetting, not loaded with NVIDIA's driver here, has a minor of its own where there is no frontend.
    expected = ["nvidia-frontend"] if has_frontend else ["nvidia", "nvidiactl"]
    assert [name for name in names if name != "nvidia-modeset"] == expected
    assert re.findall(r"^ *\d+ nvidia-uvm$", listed, re.MULTILINE)


def test_proc_files(machine: Machine, version: str) -> None:
    """The driver's version, and each card's information, are told line by line as NVIDIA's driver does."""
    told = machine.read_file("/proc/driver/nvidia/version").decode()
    assert re.match(
        rf"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {re.escape(version)}  Release", told
    )
    information = machine.shell("cat /proc/driver/nvidia/gpus/*/information").stdout
    keys = [line.split(":")[0] for line in information.splitlines()]
    assert [key for key in keys if key != FIRMWARE] == INFORMATION
    modes = machine.shell(
        "stat -c %a /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information"
    ).stdout
    assert modes.split() == ["444", "444"]


def test_functions(machine: Machine, version: str) -> None:
    """What the engine probes and calls is there under its name."""
    found = set(
        re.findall(
            r"^\w+ [tT] (\w+)\t\[nvidia\]$", machine.read_file("/proc/kallsyms").decode(), re.MULTILINE
        )
    )
    assert [name for name in FUNCTIONS if name not in found] == []
