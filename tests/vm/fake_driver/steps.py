# SPDX-License-Identifier: Apache-2.0
"""Steps with the fake driver: dma-bufs, and the card's own view."""

from __future__ import annotations

import re

from tests.attacks.build import uvm_probe
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Finished
from tests.vm.harness.store import ROOT

PROBE = ROOT / "kmod" / "build" / "cgpu-probe"
PROBE32 = ROOT / "kmod" / "build" / "cgpu-probe32"
EMPTY = "used=0 clients=0 objects=0 files=0 kernel_opens=0"


def card(machine: Machine, index: int = 0) -> str:
    """Return what a card says of itself."""
    return machine.read_file("/proc/driver/nvidia/opencgpu_card").decode().splitlines()[index]


def run_buffer_steps(machine: Machine, *steps: str) -> Finished:
    """Carry out steps with dma-bufs; all must answer as expected."""
    return machine.run([machine.seen(uvm_probe()), *steps])


def used(done: Finished) -> list[int]:
    """Return the answers to the steps `used`."""
    return [int(number) for number in re.findall(r"bytes=(\d+) used", done.stdout)]
