# SPDX-License-Identifier: Apache-2.0
"""How commands end, and how the recorder does."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from cgpu.trace.format import load
from tests.integration.commands import call, eventually, must
from tests.sim.support import BUILD
from tests.trace.support import CGPU, RECORDER, Recorder, Words, calls, memory

pytestmark = pytest.mark.root
WAIT = 20.0


def holding(recorder: Recorder) -> subprocess.Popen[str]:
    """Start a recorded probe that holds memory, and wait until it does."""
    words: Words = [BUILD / "cgpu-probe", "--dev", recorder.mount, "alloc=64K", "hold=60"]
    process = subprocess.Popen(recorder.command(words), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.stdout.readline() != "hold\n":
        assert process.poll() is None
    return process


@pytest.mark.parametrize("code", [0, 3, 125, 255])
def test_exit_status(recorder: Recorder, code: int) -> None:
    """The command's exit status is the recorder's."""
    assert recorder.run(["/bin/sh", "-c", f"exit {code}"]).returncode == code
    assert [event.status for event in calls(load(recorder.file), "exit")] == [code]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_death_by_signal(recorder: Recorder, number: signal.Signals) -> None:
    """A command that a signal ends gives 128 and its number, in the trace too."""
    assert recorder.run(["/bin/sh", "-c", f"kill -{int(number)} $$"]).returncode == 128 + number
    assert [event.rest["signal"] for event in calls(load(recorder.file), "exit")] == [number]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on(recorder: Recorder, number: signal.Signals) -> None:
    """A signal to the recorder reaches the command, which ends as it likes."""
    with holding(recorder) as process:
        process.send_signal(number)
        assert process.wait(WAIT) == 0
    assert calls(load(recorder.file), "NV_ESC_RM_FREE")


COUNTING = """
import signal, time
caught = []
signal.signal(signal.SIGINT, lambda *_: caught.append(1))
print("ready", flush=True)
end = time.monotonic() + 1
while time.monotonic() < end: time.sleep(0.05)
print("caught", len(caught))
"""
TERMINAL = """
import os, pty, sys
pid, master = pty.fork()
if pid == 0: os.execv(sys.argv[1], sys.argv[1:])
text = b""
while b"ready" not in text: text += os.read(master, 999)
os.write(master, bytes([3]))
try:
    while part := os.read(master, 999): text += part
except OSError: pass
os.waitpid(pid, 0)
print(text.split()[-1].decode())
"""


def test_terminal_signal(recorder: Recorder) -> None:
    """An interrupt of the terminal reaches the command once: the recorder does not repeat it."""
    command = recorder.command([sys.executable, "-I", "-c", COUNTING])
    assert must([sys.executable, "-c", TERMINAL, *command]).stdout.strip() == "1"


def test_killed_recorder(recorder: Recorder) -> None:
    """A killed recorder takes its processes along; nothing stays stopped, and the trace is readable."""
    with holding(recorder) as process:
        child = psutil.Process(process.pid).children()[0]  # the reader of its memory comes later
        process.kill()
        process.wait(WAIT)
    eventually(lambda: not child.is_running(), "it has ended")
    (alloc,) = memory(load(recorder.file))
    assert alloc.status == 0


def test_stopped_command(recorder: Recorder) -> None:
    """A command that is stopped stays so until it is continued."""
    with holding(recorder) as process:
        child = psutil.Process(process.pid).children()[0]
        child.suspend()
        stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        eventually(lambda: child.status() in stopped, "it has stopped")
        child.resume()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0


def test_background_processes(recorder: Recorder) -> None:
    """What the command leaves behind is recorded to its end; the status is the command's."""
    assert recorder.run(["/bin/sh", "-c", "(sleep 0.3; exit 5) & exit 4"]).returncode == 4
    statuses = [event.status for event in calls(load(recorder.file), "exit")]
    assert statuses[0] == 4
    assert 5 in statuses


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["/nowhere/program"], 127, "/nowhere/program: is not found"),
        (["no-such-program"], 127, "no-such-program: is not found"),
        (["/etc/passwd"], 126, "/etc/passwd: cannot be run: Permission denied"),
        ([], 125, "COMMAND: is missing"),
    ],
)
def test_command_that_does_not_run(recorder: Recorder, words: list[str], code: int, message: str) -> None:
    """It is 127 or 126 with one line, and an earlier trace stays as it was."""
    recorder.file.write_text("earlier")
    done = recorder.run(words)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert message in done.stderr
    assert recorder.file.read_text() == "earlier"


def test_no_file_is_left(recorder: Recorder) -> None:
    """A command that does not run leaves no empty trace."""
    recorder.run(["/nowhere/program"])
    assert not recorder.file.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "/nowhere/trace"], "-o /nowhere/trace: No such file or directory"),
        *(
            (["--driver", version], f"--driver {version}: expected a version")
            for version in ("latest", "535", "535.", "535.54..03", "535.54.03.1", "535.123456", "535.+54")
        ),
        (["--note", "novalue"], "--note novalue: expected KEY=VALUE"),
        (["--note", "a=1", "--note", "a=2"], "--note a=2: expected each KEY once"),
        (["--nonsense"], "COMMAND: is missing"),
    ],
)
def test_own_failures(recorder: Recorder, options: list[str], message: str) -> None:
    """A failure of ours is 125 and one line that names the thing."""
    rest = [] if options == ["--nonsense"] else [*options, "--", "/bin/true"]
    done = call([CGPU, "trace", "record", *rest])
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert message in done.stderr


def test_full_disk(recorder: Recorder) -> None:
    """A trace that cannot be written to its end is 125; the command runs to its end all the same."""
    words: Words = [RECORDER, "-o", "/dev/full", "--dev", recorder.mount, "--", "/bin/echo", "ran"]
    done = call(words)
    assert (done.returncode, done.stdout) == (125, "ran\n")
    assert "the trace is not complete: No space left on device" in done.stderr
