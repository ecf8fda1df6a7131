# SPDX-License-Identifier: Apache-2.0
"""Looks at any process's filters end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import PROGRAMS
from tests.daemon.supervise.test_filters import profile
from tests.daemon.test_programs import BENCH, compiled
from tests.daemon.versions import library_objects
from tests.integration.commands import eventually
from tests.run.libseccomp import compile_profile

# A child traces a second thread and never waits for it, so the program that is executed never begins: the
# kernel waits for that thread's end, and lets no tracer attach to the process meanwhile.
TRAP = """
import ctypes, os, signal, sys, threading, time
libc = ctypes.CDLL(None)
ready = threading.Event()
def second():
    ready.tid = threading.get_native_id()
    ready.set()
    time.sleep(1000)
threading.Thread(target=second, daemon=True).start()
ready.wait()
seen, tell = os.pipe()
if os.fork() == 0:
    done = libc.ptrace(0x4206, ready.tid, None, None)  # PTRACE_SEIZE
    os.write(tell, b"%d" % done)
    signal.pause()
assert os.read(seen, 9) == b"0"
print("executes", flush=True)
os.execv("/bin/sleep", ["sleep", "1000"])
"""
# Filters that allow all, with the filter of a file among them.
MANY = """
import ctypes, struct, sys, time
libc = ctypes.CDLL(None)
allow = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
def install(code, times=1):
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("H6xP", len(code) // 8, ctypes.addressof(held))
    for _ in range(times):
        assert libc.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
before, after, code = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3], "rb").read()
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
install(allow, before)
install(code)
install(allow, after)
print("stands", flush=True)
time.sleep(1000)
"""


Inspect = Callable[..., list[int]]


@pytest.fixture(scope="module")
def inspect(tmp_path_factory: pytest.TempPathFactory) -> Inspect:
    """Return what inspects a process so many times, and gives what came of it."""
    program = tmp_path_factory.mktemp("inspecting") / "inspecting"
    compiled(PROGRAMS / "inspecting.c", *sorted(BENCH.glob("*.c")), *library_objects(), "-o", program)

    def inspects(pid: int, times: int = 1) -> list[int]:
        env = {**os.environ, "INSPECTED": str(pid), "TIMES": str(times)}
        done = subprocess.run(
            [program, "inspects"], env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return [int(line) for line in done.stdout.split()]

    return inspects


def states(process: int) -> list[str]:
    stats = Path(f"/proc/{process}/task").glob("*/stat")
    return [stat.read_text().rpartition(") ")[2][0] for stat in stats]


@pytest.fixture
def trapped() -> Iterator[subprocess.Popen[str]]:
    """Return a process that executes a program and never gets there."""
    command = [sys.executable, "-c", TRAP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "executes\n"
            eventually(lambda: "Z" in states(process.pid), "the second thread is not ended")
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(60)
def test_a_process_that_never_stands_still(inspect: Inspect, trapped: subprocess.Popen[str]) -> None:
    """A process in the middle of an execve() is given up on, again and again, and keeps no thread of ours."""
    assert inspect(trapped.pid, 3) == [-errno.ETIMEDOUT] * 3
    assert trapped.poll() is None


@pytest.mark.parametrize(("before", "after"), [(40, 3), (0, 0)])
def test_the_newest_filters_are_looked_at(inspect: Inspect, tmp_path: Path, before: int, after: int) -> None:
    """A process that has the filter after many others, which its starter had, is left alone."""
    file = tmp_path / "filter"
    file.write_bytes(compile_profile(profile()))
    words = [sys.executable, "-c", MANY, str(before), str(after), str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stands\n"
        try:
            # On a busy machine the process may stand still too late for a look, and is looked at again.
            eventually(lambda: inspect(process.pid) == [1], "it has the filter")
            assert process.poll() is None
        finally:
            process.kill()


def test_a_process_without_the_filter_is_ended(inspect: Inspect) -> None:
    """A process of another user that lacks the filter is killed, and never goes on."""
    with subprocess.Popen(["/bin/sleep", "1000"], user=65534, group=65534) as process:
        eventually(lambda: inspect(process.pid) == [0], "it is not inspected")
        assert process.wait(10) == -signal.SIGKILL


# The first thread ends, the second one goes on.
LEADERLESS = """
import ctypes, threading, time
def second():
    print("runs", flush=True)
    time.sleep(1000)
threading.Thread(target=second).start()
ctypes.CDLL(None).syscall(60, 0)  # SYS_exit
"""


def test_a_process_that_has_ended_lacks_nothing(inspect: Inspect) -> None:
    """The kernel forbids to trace a process that its parent has not waited for; it is no unknown one."""
    with subprocess.Popen(["/bin/true"]) as process:
        eventually(lambda: states(process.pid) == ["Z"], "it has not ended")
        assert inspect(process.pid) == [-errno.ESRCH]


def test_a_process_whose_first_thread_has_ended_is_unknown(inspect: Inspect) -> None:
    """Others of its threads go on, with filters that were not looked at."""
    with subprocess.Popen([sys.executable, "-c", LEADERLESS], stdout=subprocess.PIPE) as process:
        try:
            eventually(lambda: sorted(states(process.pid)) == ["S", "Z"], "its first thread has not ended")
            assert inspect(process.pid) == [-errno.EPERM]
        finally:
            process.kill()
