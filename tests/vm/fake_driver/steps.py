# SPDX-License-Identifier: Apache-2.0
"""Steps with the fake driver: its probe of nvidia-uvm, and the card's own view."""

from __future__ import annotations

import re

from tests.vm.harness.machine import Machine
from tests.vm.harness.node import build_fake_driver
from tests.vm.harness.process import Finished
from tests.vm.harness.store import ROOT

PROBE = ROOT / "kmod" / "build" / "cgpu-probe"
PROBE32 = ROOT / "kmod" / "build" / "cgpu-probe32"
MAPPED = ("uvm", "alloc=1G", "range=1G", "map")
EMPTY = "used=0 clients=0 objects=0 files=0 kernel_opens=0"


def card(machine: Machine, index: int = 0) -> str:
    """Return what a card says of itself."""
    return machine.read_file("/proc/driver/nvidia/opencgpu_card").decode().splitlines()[index]


def uvm_command(machine: Machine, *steps: str) -> list[str]:
    """Return the command for steps with nvidia-uvm."""
    return [machine.seen(build_fake_driver(machine.kernel) / "uvm-probe"), *steps]


def uvm(machine: Machine, *steps: str) -> Finished:
    """Carry out steps with nvidia-uvm; all must answer as expected."""
    return machine.run(uvm_command(machine, *steps))


def used(done: Finished) -> list[int]:
    """Return the answers to the steps `used`."""
    return [int(number) for number in re.findall(r"bytes=(\d+) used", done.stdout)]
