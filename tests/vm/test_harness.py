# SPDX-License-Identifier: Apache-2.0
"""The harness itself: commands, their ends and output, and faults of the kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.vm.conftest import Boot
from tests.vm.harness.kernel_log import KernelLog
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.machine import QEMU, CommandError, Machine, MachineDiedError
from tests.vm.harness.store import ROOT


def complain(machine: Machine, text: str) -> None:
    """Put a line into the guest's kernel log."""
    machine.write_file("/dev/kmsg", text)


def test_timeout_kills(machine: Machine) -> None:
    """A command that runs too long is killed with all of its process group."""
    with pytest.raises(CommandError, match="killed after"):
        machine.run(["sh", "-c", "sleep 977 & sleep 978"], timeout=1)
    assert machine.shell("ps | grep -c '[s]leep 97' || true").stdout == "0\n"


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


def test_machine_dies_with_its_maker(kernel: Kernel, tmp_path: Path) -> None:
    """Killing the tests ends their machines."""
    program = (
        "import pathlib, sys, time; from tests.vm.harness.kernels import *;"
        "from tests.vm.harness.machine import *;"
        "m = Machine(choose_kernel(), pathlib.Path(sys.argv[1]), memory=512);"
        "print(m.emulator.pid, flush=True); time.sleep(100)"
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert maker.stdout is not None
    emulator = Path("/proc") / maker.stdout.readline().strip()
    assert QEMU in (emulator / "cmdline").read_text()
    maker.kill()
    maker.communicate()
    eventually(lambda: not emulator.exists() or "\nState:\tZ" in (emulator / "status").read_text(), "it ends")
