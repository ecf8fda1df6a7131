# SPDX-License-Identifier: Apache-2.0
"""The harness itself: commands, their ends and output, and faults of the kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.vm.conftest import Boot, is_clean
from tests.vm.harness import machine as machines
from tests.vm.harness import process as processes
from tests.vm.harness.bundles import Containers
from tests.vm.harness.counts import count
from tests.vm.harness.kernel_log import KernelLog
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.machine import QEMU, CommandError, Machine, MachineDiedError
from tests.vm.harness.store import ROOT

BINARY = bytes(range(256)) * 1000


def complain(machine: Machine, text: str) -> None:
    """Put a line into the guest's kernel log."""
    machine.write_file("/dev/kmsg", text)


def test_exit_and_output(machine: Machine) -> None:
    """A command's exit status and its two outputs come back apart."""
    done = machine.run(["sh", "-c", "echo out; echo err >&2; exit 7"], check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_signal(machine: Machine) -> None:
    """A command that a signal ends has that signal as negative exit status."""
    assert machine.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -9


def test_failure_is_told(machine: Machine) -> None:
    """A failed command fails the test with what it printed."""
    with pytest.raises(CommandError, match="exit 3:\nwhy"):
        machine.run(["sh", "-c", "echo why >&2; exit 3"])


def test_missing_program(machine: Machine) -> None:
    """A program that is not there is an exit status, not a hang."""
    done = machine.run(["/no/such/program"], check=False)
    assert done.returncode == 127
    assert "/no/such/program" in done.stderr


def test_binary(machine: Machine) -> None:
    """Input and output carry any bytes, more than a pipe holds."""
    assert machine.run(["cat"], input=BINARY).stdout_bytes == BINARY


def test_input_nobody_reads(machine: Machine) -> None:
    """Input that a command leaves unread holds up nothing."""
    assert machine.run(["true"], input=BINARY).returncode == 0


def test_environment(machine: Machine) -> None:
    """A command gets the variables that it was given."""
    done = machine.run(["sh", "-c", 'echo "$NAME"'], env={"NAME": "two words"})
    assert done.stdout == "two words\n"


def test_timeout_kills(machine: Machine) -> None:
    """A command that runs too long is killed with all of its process group."""
    with pytest.raises(CommandError, match="killed after"):
        machine.run(["sh", "-c", "sleep 977 & sleep 978"], timeout=1)
    assert machine.shell("ps | grep -c '[s]leep 97' || true").stdout == "0\n"


def test_parallel(machine: Machine) -> None:
    """Several commands run at the same time, each with its own output."""
    waiting = [machine.start(["cat"], input=None) for _ in range(20)]
    for number, process in enumerate(waiting):
        process.write(f"{number}\n")
        process.await_output(f"{number}\n")
    assert all(process.running for process in waiting)
    for process in waiting:
        process.close_input()
    assert [process.wait().stdout for process in waiting] == [f"{number}\n" for number in range(20)]


def test_left_behind(machine: Machine) -> None:
    """A command counts as ended when its process is, though a child still has its output open."""
    began = time.monotonic()
    done = machine.run(["sh", "-c", "sleep 15 & echo $!"])
    assert time.monotonic() - began < 15
    machine.run(["kill", done.stdout.strip()])


def test_files(machine: Machine) -> None:
    """Files are written and read with any content."""
    machine.write_file("/tmp/deep/file name", BINARY, mode=0o600)
    assert machine.read_file("/tmp/deep/file name") == BINARY


def test_host_is_not_written(machine: Machine, tmp_path: Path) -> None:
    """What the guest changes stays in the guest."""
    name = f"/usr/{tmp_path.name}"
    machine.write_file(name, "x")
    assert not Path(name).exists()
    assert machine.run(["touch", machine.seen(tmp_path / "x")], check=False).returncode != 0


def test_new_files_of_the_host(machine: Machine, tmp_path: Path) -> None:
    """A file that the host makes or changes while the guest runs is seen there."""
    path = tmp_path / "late"
    for text in ("first", "second, longer"):
        path.write_text(text)
        assert machine.read_file(machine.seen(path)).decode() == text


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


def test_fault_that_is_expected(machine: Machine) -> None:
    """An expected fault is none, and one that never comes is a problem."""
    machine.expect_log("made/up")
    complain(machine, "WARNING: CPU: 0 PID: 1 at made/up.c:1")
    assert machine.problems() == []
    machine.expect_log("never said")
    assert "never said" in machine.problems()[0]


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


def test_dmesg(machine: Machine) -> None:
    """The kernel log is whole, from the first line to the last."""
    complain(machine, "a last word")
    lines = machine.dmesg().splitlines()
    assert "Linux version" in lines[0]
    assert "a last word" in lines[-1]


def test_cgroup_is_whole(machine: Machine) -> None:
    """Every controller that containers need is in the guest's one hierarchy."""
    controllers = machine.read_file("/sys/fs/cgroup/cgroup.subtree_control").decode().split()
    assert {"cpu", "cpuset", "memory", "pids"} <= set(controllers)


def test_panic_is_found(boot: Boot) -> None:
    """A machine whose kernel panics says so, once, with what the console showed; nothing waits for it."""
    machine = boot(memory=512)
    with pytest.raises(MachineDiedError, match="sysrq"):
        machine.write_file("/proc/sysrq-trigger", "c")
    assert "Kernel panic" in "\n".join(machine.problems())
    assert machine.problems() == []
    with pytest.raises(MachineDiedError):
        machine.run(["true"])


MAKE_FROZEN_GROUP = """
mkdir /tmp/freezer
mount -t cgroup -o freezer none /tmp/freezer
mkdir /tmp/freezer/one
echo FROZEN >/tmp/freezer/one/freezer.state
"""
ENTER_FROZEN_GROUP = "echo $$ >/tmp/freezer/one/tasks; sleep 1000"


def test_what_cannot_be_killed(boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that cannot be killed ends the machine, which says what it was at, and where."""
    monkeypatch.setattr(processes, "KILL_GRACE", 3.0)
    machine = boot(memory=512)
    machine.shell(MAKE_FROZEN_GROUP)
    with pytest.raises(MachineDiedError, match=r"(?s)cannot be killed.*CPU#0.*Kernel panic.*refrigerator"):
        machine.run(["sh", "-c", ENTER_FROZEN_GROUP], timeout=5)
    assert machine.problems() == []
    assert not is_clean(machine)


def test_a_guest_that_stands_still(boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does nothing more says so, once, with its registers and what it said last."""
    monkeypatch.setattr(machines, "SYNC_SECONDS", 3.0)
    monkeypatch.setattr(machines, "PANIC_SECONDS", 3.0)
    machine = boot(memory=512)
    complain(machine, "<1>a last word\n")
    machine.monitor.ask("stop")
    assert re.search(r"(?s)does not answer\s+CPU#0\s+RAX=.*before that:.*a last word", machine.problems()[0])
    assert machine.problems() == []


# Switching this setting changes code at some twenty places of the scheduler.
CHANGE_CODE = """
cd /proc/sys/kernel
while echo 1 >sched_schedstats && echo 0 >sched_schedstats; do :; done
"""
BE_BUSY = "while :; do /bin/busybox true | /bin/busybox true; done"
CODE_SECONDS = count(10, 300)


def test_code_that_changes_under_busy_processors(boot: Boot) -> None:
    """A machine with two busy processors lives on while the kernel changes its own code."""
    with boot(memory=512, cpus=2) as machine:
        assert machine.run(["nproc"]).stdout == "2\n"
        scripts = (CHANGE_CODE, BE_BUSY, BE_BUSY)
        started = [machine.start(["/bin/busybox", "sh", "-c", script]) for script in scripts]
        end = time.monotonic() + CODE_SECONDS
        while time.monotonic() < end:
            machine.run(["true"])
        assert all(process.running for process in started)
        assert machine.problems() == []


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


def test_containers(machine: Machine) -> None:
    """runc and crun run containers: to their end, beside the test, and with commands sent into them."""
    for runtime in ("runc", "crun"):
        path = shutil.which(runtime)
        assert path, f"{runtime}: not installed; run: scripts/bootstrap test"
        containers = Containers(machine, path, f"/run/cgpu-vm/{runtime}")
        done = containers.run(["sh", "-c", "cat /proc/self/cgroup; exit 3"], name="short")
        assert (done.returncode, done.stdout) == (3, "0::/short\n")
        beside = containers.start(["sh", "-c", "echo up; exec sleep 1000"], name="long")
        beside.await_output("up")
        assert containers.exec("long", ["cat", "/proc/1/cmdline"]).stdout == "sleep\x001000\x00"
        assert machine.read_file(f"/proc/{containers.pid('long')}/cgroup").decode() == "0::/long\n"
        assert containers.kill("long").returncode == 0
        assert beside.wait().returncode == 137
