# SPDX-License-Identifier: Apache-2.0
"""Cost of turns of GPU time for the module, in instructions: the same on a busy host, as no clock is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.turn_instructions import BOUND, MODULE, PREEMPTIVE, WEIGHT, Row, Subject, row
from benchmarks.turn_instructions import module as module_at_work
from tests.vm.harness.kernels import VARIABLE
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, unload_driver

pytestmark = pytest.mark.fake_driver("a knob of the driver")

SECONDS = 2.0  # of the guest, which are instructions


@pytest.fixture(scope="module")
def at_work(boot: Callable[..., Machine], module: Path) -> Iterator[Subject]:
    """Return the engine with 25 containers at work, in a machine that counts instructions."""
    machine = boot(counted=1)
    load_driver(machine)
    with module_at_work(machine) as tree:
        yield Subject(machine, MODULE, tree)
    unload_driver(machine)


def measure(at_work: Subject, policy: int) -> Row:
    """Measure the engine's thread, with a driver whose work costs nothing."""
    return row(at_work, policy, 1, SECONDS, free=True)


def test_turns_of_a_millisecond_take_less_than_a_percent(at_work: Subject) -> None:
    """The thread is woken once in a turn, and executes less than 10000 instructions in each millisecond."""
    found = measure(at_work, WEIGHT)
    assert 500 < found.median("rate") < 1050, found
    # Linux 7.2, of Debian testing, executes a fifth more than 6.1 to wake a thread; a kernel that checks
    # itself executes more than any node does.
    bound = 1.25 * BOUND if os.environ.get(VARIABLE) == "testing" else BOUND
    assert at_work.machine.kernel.debug or found.own < bound, found


def test_where_the_card_divides_the_time_the_thread_sleeps(at_work: Subject) -> None:
    """The thread wakes to read samples, eight in a second of so many processes, and not for turns."""
    # So many containers at once change the runlists so often that disabling channels is not left out.
    at_work.machine.run(["/bin/busybox", "sleep", "4"])
    assert measure(at_work, PREEMPTIVE).median("rate") < 20
