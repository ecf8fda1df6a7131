# SPDX-License-Identifier: Apache-2.0
"""A program whose managed memory UVM moves to the card, beside memory that fills its slice."""

from __future__ import annotations

from tests.attacks.build import uvm_probe
from tests.integration.engine import MIB
from tests.vm.harness.process import Process
from tests.vm.harness.slices import Stage

LIMIT = 512 * MIB
NO_MEMORY = 0x51
SECONDS = 120


def hold_managed_memory(staged: Stage, name: str) -> Process:
    """Start it in a new slice of LIMIT bytes, and wait until it has all of it and was refused more."""
    words = [
        "uvm",
        "managed=256M",
        "touch=256M",
        "migrate",
        "alloc=256M",
        f"expect={NO_MEMORY:#x}",
        "alloc=2M",
    ]
    process = staged.start(staged.slice(name, LIMIT), uvm_probe(), *words, "used", "hold=1000")
    process.await_output("used status", timeout=staged.machine.scaled(SECONDS))
    return process
