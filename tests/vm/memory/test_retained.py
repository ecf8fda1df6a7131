# SPDX-License-Identifier: Apache-2.0
"""Channels that NVIDIA's UVM retains: they have numbers of the card after their groups are freed."""

from __future__ import annotations

import re

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.commands import eventually
from tests.vm.harness.process import Finished
from tests.vm.harness.slices import GIB, Stage

NO_NUMBER = "expect=0x4f"  # NV_ERR_NO_FREE_FIFOS


def made(outcome: Finished) -> int:
    """Return how many groups a program had UVM retain before the next one was refused."""
    found = re.search(r"made=(\d+) retain status=0x4f", outcome.stdout)
    assert found, outcome.text
    return int(found[1])


@pytest.mark.real_driver
@pytest.mark.enforcement
def test_a_neighbour_has_its_numbers(staged: Stage) -> None:
    """A container that frees groups which UVM retains gets its part of a runlist's 2048 numbers, no more."""
    program = uvm_probe()
    tenants = [staged.slice(name, 4 * GIB) for name in ("greedy", "neighbour")]
    greedy = staged.start(tenants[0], program, "uvm", NO_NUMBER, "retain=2500", "used", "hold=1000")
    greedy.await_output("used status", timeout=staged.machine.scaled(300))
    neighbour = tenants[1].run(program, "uvm", NO_NUMBER, "retain=2500").check()
    # Part of 15109 MiB, with 20 places (docs/scheduling.md).
    assert made(greedy.finished()) == made(neighbour) == 960 // 20 + 960 * 4096 // 15110
    greedy.stop(staged.machine.scaled(30))

    def has_all_again() -> bool:
        return tenants[0].run(program, "uvm", "retain=300").returncode == 0

    eventually(has_all_again, "UVM has let go", staged.machine.scaled(60))
