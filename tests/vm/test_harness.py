# SPDX-License-Identifier: Apache-2.0
"""The harness finds faults of the kernel: without that every test of the module would pass beside them."""

from __future__ import annotations

import pytest

from tests.vm.conftest import Boot
from tests.vm.harness.kernel_log import KernelLog
from tests.vm.harness.machine import Machine, MachineDiedError


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


@pytest.mark.parametrize(
    ("second", "faults"), [("os_acquire_spinlock+0x16/0x50 [nvidia]", 0), ("here+0x1/0x2", 1)]
)
def test_locks_of_nvidia_are_one_class(second: str, faults: int) -> None:
    """What lockdep says of two spin locks of NVIDIA's driver is no fault; of any other lock it is one."""
    log = KernelLog()
    lines = (
        "WARNING: possible recursive locking detected",
        "keeper/110 is trying to acquire lock:",
        "ffff88800a10d5a0 (&os_spinlock->lock){....}-{2:2}, at: os_acquire_spinlock+0x16/0x50 [nvidia]",
        "but task is already holding lock:",
        f"ffff88800a280da0 (&os_spinlock->lock){{....}}-{{2:2}}, at: {second}",
    )
    log.add("\0".join(f"4,{number},0,-;{line}" for number, line in enumerate(lines)).encode())
    assert len(log.check()) == faults


def test_panic_is_found(boot: Boot) -> None:
    """A machine whose kernel panics says so, once, with what the console showed; nothing waits for it."""
    machine = boot(memory=512)
    with pytest.raises(MachineDiedError, match="sysrq"):
        machine.write_file("/proc/sysrq-trigger", "c")
    assert "Kernel panic" in "\n".join(machine.problems())
    assert machine.problems() == []
    with pytest.raises(MachineDiedError):
        machine.run(["true"])
