# SPDX-License-Identifier: Apache-2.0
"""Memory that cannot be read or written, wherever a call of a container points."""

from __future__ import annotations

import re

import pytest

from tests.integration.commands import eventually
from tests.vm.machine import Machine
from tests.vm.process import Finished, Process
from tests.vm.programs import build
from tests.vm.slices import Slice, await_empty, slice_of, view

CASE = re.compile(r"case call=(\S+) way=(\S+) status=(\S+)")
# The driver asks for no rights there, only reads them, and needs no list of them.
FINE = {("alloc-rights", "null"), ("alloc-rights", "read-only")}
CALLS = 10
WAYS = 5
STEP = re.compile(r"step name=(\S+) tries=(\d+) failed=(\d+) whole=(\d) status=(\S+)")
STEPS_INSIDE = 10
NODES = ("version", "0/memfree", "0/tenant/meminfo", "0/tenant/owner")
# Which allocations and copies may fail, and that nobody is told each time.
FAIL = """
[ -d /sys/kernel/debug/failslab ] || mount -t debugfs debugfs /sys/kernel/debug
cd /sys/kernel/debug
echo N >failslab/ignore-gfp-wait; echo N >fail_page_alloc/ignore-gfp-wait; echo 0 >fail_page_alloc/min-order
for kind in failslab fail_page_alloc fail_usercopy; do echo 0 >$kind/verbose; done
"""
IDLE = """
mkdir /sys/fs/cgroup/idle
/bin/busybox sleep 100000 </dev/null >/dev/null 2>&1 &
echo $! >/sys/fs/cgroup/idle/cgroup.procs
echo $!
"""
LEAKS = """
echo scan >/sys/kernel/debug/kmemleak; /bin/busybox sleep 6
echo scan >/sys/kernel/debug/kmemleak; cat /sys/kernel/debug/kmemleak
"""


@pytest.mark.parametrize("bits", [64, 32])
def test_bad_pointers(engine: Machine, bits: int) -> None:
    """Each nested pointer led astray is answered by an error, and leaves no charge."""
    tenant = slice_of(engine, "tenant")
    program = tenant.start(build("bad_pointers", bits))
    program.await_output("done\n")
    seen = view(engine)
    program.close_input()
    outcome = program.wait()
    answers = [(call, way, int(status, 0)) for call, way, status in CASE.findall(outcome.stdout)]
    assert len(answers) == 2 * CALLS * WAYS, outcome.text
    assert {(call, way) for call, way, status in answers if status == 0} == FINE
    assert (seen.used[0, "tenant"], seen.cards[0]["used"]) == (0, 0)
    after = tenant.probe("alloc=1G", "info")
    assert after.returncode == 0, after.text
    eventually(lambda: view(engine).used[0, "tenant"] == 0, "the charge ends", 10)
    tenant.end()
    await_empty(engine)


def passed_at_last(machine: Machine, process: Process, count: int) -> Finished:
    """Wait for a run of fail_nth; each step must have been made to fail, and must have passed in the end."""
    process.await_output("done\n", timeout=machine.scaled(120))
    process.close_input()
    outcome = process.wait()
    steps = STEP.findall(outcome.stdout)
    assert len(steps) == count, outcome.text
    assert all((whole, int(status, 0)) == ("1", 0) for _, _, _, whole, status in steps), outcome.text
    assert all(int(failed) > 0 for name, _, failed, *_ in steps if name != "close"), outcome.text
    return outcome


@pytest.mark.debug_kernel
def test_each_failure_in_the_kernel(engine: Machine) -> None:
    """Each allocation and user copy of each call made to fail in turn: no charge, no leak, no stuck task."""
    engine.shell(FAIL)
    tenant = slice_of(engine, "tenant")
    passed_at_last(engine, tenant.start(build("fail_nth"), "inside"), STEPS_INSIDE)
    eventually(lambda: view(engine).used == {(0, "tenant"): 0}, "the charges end", engine.scaled(10))
    assert view(engine).cards[0]["used"] == 0
    assert tenant.probe("alloc=1G", "expect=0x51", "alloc=2M").returncode == 0
    pid = engine.shell(IDLE).stdout.strip()
    nodes = [f"/proc/cgpu_km/{name}" for name in NODES]
    outside = [engine.seen(build("fail_nth")), "outside", pid, *nodes]
    passed_at_last(engine, engine.start(outside, input=None), 1 + len(NODES))
    Slice(engine, "idle").end()
    tenant.end()
    await_empty(engine)
    leaks = engine.shell(LEAKS, timeout=120).stdout
    assert "cgpu" not in leaks, leaks
