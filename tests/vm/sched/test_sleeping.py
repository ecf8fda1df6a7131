# SPDX-License-Identifier: Apache-2.0
"""Very many calls that sleep in the driver at the same time."""

from __future__ import annotations

import pytest

from tests.integration.commands import eventually
from tests.integration.probe import NO_MEMORY, steps
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.slices import PROBE, set_knob, stage

SLEEPERS = 1000  # of a container, each with an RM client: it may have 1,024
EACH = 250  # threads of one process, each of which allocates a page
PAGE = 1 << 16
LIMIT = EACH * 3 // 4 * PAGE
SECONDS = count(60, 600)
SLEEP_MS = 1000 * SECONDS  # until it is set to less

pytestmark = [pytest.mark.two_cpus, pytest.mark.timeout(2 * SECONDS + 200)]


def sleeping_tasks(machine: Machine) -> int:
    """Return how many tasks are inside of a call that cannot be interrupted."""
    script = 'cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null | grep -c "(cgpu-probe.*) D" || true'
    return int(machine.shell(script, timeout=SECONDS).stdout)


@pytest.mark.fake_driver("a knob of the driver")
@pytest.mark.enforcement
def test_calls_that_sleep_all_at_once(machine: Machine) -> None:
    """However many calls of a container sleep at once, each is judged, and no charge is lost."""
    with stage(machine) as staged:
        tenant = staged.slice("sleepers", LIMIT)
        set_knob(machine, "test_sleep_ms", SLEEP_MS)
        started = [staged.start(tenant, PROBE, f"threads={EACH}:64K") for _ in range(SLEEPERS // EACH)]
        # Each has begun its call; on a busy host the last ones are some time on their way.
        eventually(lambda: sleeping_tasks(machine) > SLEEPERS * 9 // 10, "nearly all are asleep", SECONDS)
        set_knob(machine, "test_sleep_ms", 0)
        statuses = [one.number("status") for process in started for one in steps(process.wait(SECONDS))]
        at_rest = staged.view()
        assert (len(statuses), set(statuses)) == (SLEEPERS, {0, NO_MEMORY})
        assert at_rest.used == {(0, "sleepers"): 0}
        assert (at_rest.cards[0]["used"], at_rest.cards[0]["peak"]) == (0, LIMIT)
    # A probe that missed calls says so when it goes.
    assert "calls went by its probe" not in machine.dmesg()
