# SPDX-License-Identifier: Apache-2.0
"""Very many calls that sleep in the driver at the same time."""

from __future__ import annotations

import pytest

from tests.integration.commands import eventually
from tests.vm.conftest import Boot
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Process
from tests.vm.harness.slices import Stage, figures, set_knob, stage
from tests.vm.programs import build

SLEEPERS = count(1000, 10_000)
PAGE = 1 << 16
# Half of them allocate a page each; three quarters of these fit.
FIT = SLEEPERS // 2 * 3 // 4
LIMIT = FIT * PAGE
SECONDS = count(60, 600)
SLEEP_MS = 1000 * SECONDS  # until it is set to less

pytestmark = [pytest.mark.two_cpus, pytest.mark.timeout(2 * SECONDS + 200)]


@pytest.fixture(scope="module")
def machine(boot: Boot, cpus: int) -> Machine:
    """Return a machine with room for so many threads."""
    return boot(memory=count(2048, 6144), cpus=cpus)


def sleeping_tasks(machine: Machine) -> int:
    """Return how many tasks are inside of a call that cannot be interrupted."""
    script = 'cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null | grep -c "(sleepers.*) D" || true'
    return int(machine.shell(script, timeout=SECONDS).stdout)


def all_inside(staged: Stage) -> Process:
    """Start the program, with the driver asleep, and wait until all of its calls are made."""
    process = staged.start(staged.slice("sleepers", LIMIT), build("sleepers"), SLEEPERS, PAGE)
    process.await_output("ready\n")
    set_knob(staged.machine, "test_sleep_ms", SLEEP_MS)
    process.write("\n")
    process.await_output("inside=", timeout=SECONDS)
    assert f"inside={SLEEPERS} ended=0\n" in process.finished().stdout
    return process


@pytest.mark.fake_driver("a knob of the driver")
@pytest.mark.enforcement
def test_calls_that_sleep_all_at_once(machine: Machine) -> None:
    """However many calls of a container sleep at once, each is judged, and no charge is lost."""
    with stage(machine) as staged:
        process = all_inside(staged)
        # Each has begun its call; on a busy host the last ones are some time on their way.
        eventually(lambda: sleeping_tasks(machine) > SLEEPERS * 9 // 10, "nearly all are asleep", SECONDS)
        set_knob(machine, "test_sleep_ms", 0)
        told = figures(process, SECONDS)
        at_rest = staged.view()
        assert told == {
            "granted": FIT, "refused": SLEEPERS // 2 - FIT, "told": SLEEPERS // 2, "wrong": 0, "most": LIMIT
        }  # fmt: skip
        assert at_rest.used == {(0, "sleepers"): LIMIT}
        assert (at_rest.cards[0]["used"], at_rest.cards[0]["peak"]) == (LIMIT, LIMIT)
        staged.clear()
    # A probe that missed calls says so when it goes.
    assert "calls went by its probe" not in machine.dmesg()


@pytest.mark.fake_driver("a knob of the driver")
def test_killed_while_asleep(machine: Machine) -> None:
    """A container that is killed while all its calls sleep leaves neither charge nor memory."""
    with stage(machine) as staged:
        process = all_inside(staged)
        process.kill()
        set_knob(machine, "test_sleep_ms", 0)
        process.wait(SECONDS)
        staged.clear()
        assert staged.view().cards[0]["peak"] <= LIMIT
    assert "calls went by its probe" not in machine.dmesg()
