# SPDX-License-Identifier: Apache-2.0
"""Times of calls in the kernel module, and numbers of those under way, by the root's entry `stat`."""

from __future__ import annotations

import pytest

from cgpu.client.stat import OUTCOMES, EngineStat, Latency, parse_engine
from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import read
from tests.vm.harness.slices import PROBE, Stage, set_knob

pytestmark = pytest.mark.fake_driver("a knob of the driver")

LIMIT = 1024 * MIB
SECONDS = 60
SLOW_MS = 400
LONG = 10  # from this bucket on calls took more than 262 ms


def stat(machine: Machine) -> EngineStat:
    return parse_engine(read(machine, "stat").strip())


def grown(before: EngineStat, after: EngineStat, outcome: str) -> Latency:
    old, new = before.latencies[outcome], after.latencies[outcome]
    return Latency(new.ns - old.ns, tuple(one - was for one, was in zip(new.calls, old.calls, strict=True)))


@pytest.mark.enforcement
def test_each_call_is_in_one_bucket(staged: Stage) -> None:
    """The buckets hold as many calls as the core counts; a refused allocation is one that was answered."""
    machine = staged.machine
    tenant = staged.slice("tenant", LIMIT)
    for refusals in (1, 3):
        before = stat(machine)
        done = tenant.probe("alloc=1M", *["expect=0x51", "alloc=2G"] * refusals, "info", "free=last")
        assert done.returncode == 0, done.text
        after = stat(machine)
        executed, continued, answered = (sum(grown(before, after, one).calls) for one in OUTCOMES)
        assert executed == after.executed - before.executed > 0
        assert continued == after.continued - before.continued > 0
        assert answered == after.answered + after.refused - before.answered - before.refused
        assert after.refused - before.refused == refusals
    assert after.calls_now == 0
    assert (after.workers, after.queues) == (None, {})


def test_slow_driver_is_in_what_the_engine_runs(staged: Stage) -> None:
    """A driver that takes long makes calls long that the module runs, and not those that go on."""
    machine = staged.machine
    tenant = staged.slice("tenant", LIMIT)
    tenant.probe("alloc=1M", "free=last").check()
    before = stat(machine)
    set_knob(machine, "test_sleep_ms", SLOW_MS)
    try:
        working = tenant.hold("alloc=1M")
        staged.processes.append(working)
    finally:
        set_knob(machine, "test_sleep_ms", 0)
    after = stat(machine)
    executed, continued = (grown(before, after, outcome) for outcome in ("executed", "continued"))
    number = sum(executed.calls)
    assert number == sum(executed.calls[LONG:]) > 0
    assert executed.ns >= number * SLOW_MS * 10**6
    assert 0 < continued.ns < sum(continued.calls) * SLOW_MS * 10**6


def test_calls_that_are_under_way(staged: Stage) -> None:
    """As many as tasks are in the driver, until they are out again."""
    machine = staged.machine
    tenants = [staged.slice(name, LIMIT) for name in ("one", "two")]
    set_knob(machine, "test_sleep_ms", 10**6)
    try:
        for tenant in tenants:
            staged.start(tenant, PROBE, "alloc=1M", "hold")
        eventually(lambda: stat(machine).calls_now == len(tenants), "each waits", machine.scaled(SECONDS))
    finally:
        set_knob(machine, "test_sleep_ms", 0)
    eventually(lambda: stat(machine).calls_now == 0, "all are over", machine.scaled(SECONDS))
