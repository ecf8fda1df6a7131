# SPDX-License-Identifier: Apache-2.0
"""The harness finds faults of the kernel: without that every test of the module would pass beside them."""

from __future__ import annotations

import pytest

from tests.vm.harness.machine import Machine


def complain(machine: Machine, text: str) -> None:
    machine.write_file("/dev/kmsg", text)


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 0 PID: 1 at made/up.c:1 here+0x0/0x1",
        "BUG: KASAN: use-after-free in here+0x0/0x1",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "WARNING: possible circular locking dependency detected",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    ],
)
def test_fault_is_found(machine: Machine, line: str) -> None:
    """A fault in the kernel log is a problem of the machine, once, with the line that names it."""
    assert machine.problems() == []
    complain(machine, line)
    assert line in machine.problems()[0]
    assert machine.problems() == []
