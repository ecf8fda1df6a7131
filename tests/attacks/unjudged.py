# SPDX-License-Identifier: Apache-2.0
"""Controls, classes and calls of nvidia-uvm that the tables lack."""

from __future__ import annotations

from tests.attacks.attack import attack, numbers, rest, verdicts_hold, verdicts_of
from tests.attacks.build import client
from tests.attacks.harness import DAEMON, Harness

UNKNOWN_CONTROLS = 4000  # of 4096 numbers, some are in the table
# NVIDIA's driver refuses a few by itself before it looks at their parameters: 550.163.01 one of them.
REFUSED_BY_DRIVER = 3
UNKNOWN_CLASSES = 2000  # of 2048 numbers, some may be in the table
UNKNOWN_CALLS = 8000  # of 8192 numbers, some are in the table


# Controls that the table lacks, and those that are the node's, by callers with rights in their container.
#
# A list of what is refused has gaps. gVisor's nvproxy, in the same place, lets through what it knows:
# https://github.com/google/gvisor/blob/master/g3doc/proposals/nvidia_driver_proxy.md.


@attack(limit=True)
def unjudged_controls(harness: Harness) -> None:
    """A refused or unknown control never reaches the driver, however it is asked; an allowed one does."""
    verdicts_hold(harness, "controls", unknown=UNKNOWN_CONTROLS, by_driver=REFUSED_BY_DRIVER)


# Objects of classes that the table lacks, and of those that are the node's: profilers, registers, fabric.
#
# gVisor's nvproxy, in the same place, lets through the classes that it knows:
# https://github.com/google/gvisor/blob/master/pkg/sentry/devices/nvproxy/version.go.


@attack(limit=True)
def unjudged_classes(harness: Harness) -> None:
    """A refused or unknown class never reaches the driver, by whichever call; an allowed one does."""
    verdicts_hold(harness, "classes", unknown=UNKNOWN_CLASSES)


# Calls of nvidia-uvm that the table lacks, and the one that takes page tables in no process's name.
#
# gVisor's nvproxy lets through the calls of UVM that it knows, in the same file as the controls.


@attack(limit=True)
def unjudged_calls_of_uvm(harness: Harness) -> None:
    """A refused or unknown call never reaches nvidia-uvm, by either node of it; no other is refused.

    cgpud is not told of numbers with a type and without a size, of which the driver serves none.
    """
    refused = verdicts_of("controls", "uvm")["refuse"]
    running = harness.tenant().start(client("unjudged"), "--dev", harness.dev, "calls")
    running.line("ready")
    before = harness.refused()
    running.go_on()
    tried = numbers(running.line("nodes"))
    found = rest(running, "tried")
    assert (found["reached"], found["refused"]) == (0, refused * tried["nodes"]), found
    assert found["unknown"] >= UNKNOWN_CALLS * tried["nodes"], found
    passed_by = tried["typed"] if harness.engine == DAEMON else 0
    assert harness.refused() - before == found["refused"] + found["unknown"] - passed_by, tried
    running.finish()
