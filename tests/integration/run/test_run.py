# SPDX-License-Identifier: Apache-2.0
"""cgpu run under the daemon engine: a command in a slice, and nothing left of it afterwards."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT

import psutil
import pytest

from tests.integration.commands import Outcome, call, eventually, must
from tests.integration.conftest import Start
from tests.integration.engine import CGPU, CGPUD, RUN, TREE, Engine
from tests.integration.images import PROBE
from tests.integration.probe import NO_MEMORY, step, steps
from tests.integration.test_slice import SIZES

# The tests may run with signals ignored, as a background job does; commands inherit that.
SIGNALS = ("/usr/bin/env", "--default-signal")
GIB = 1 << 30
SLICE = ("--mem", "1G")
# A shell that says when it is there, and then waits for its standard input.
READY = 'echo ready; read -r line; exec "$0" "$@"'


def run(*command: str | Path, options: Sequence[str] = SLICE) -> Outcome:
    return call([CGPU, "run", *options, "--", *command])


def every_group() -> list[str]:
    found = []
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{directory}/{name}" for name in names if name.startswith("cgpu-run-")]
    return found


# A run killed in another login session leaves its cgroup there, where runs of this session do not look.
LEFT_BEFORE = frozenset(every_group())


def groups() -> list[str]:
    return [group for group in every_group() if group not in LEFT_BEFORE]


def members() -> list[int]:
    return [int(pid) for group in groups() for pid in (Path(group) / "cgroup.procs").read_text().split()]


@pytest.fixture(autouse=True)
def nothing_left(start: Start) -> Iterator[None]:
    """A run leaves neither a cgroup nor a registration."""
    yield
    assert groups() == []
    assert list(TREE.glob("*/*/")) == []


@contextmanager
def running(*command: str | Path, options: Sequence[str] = SLICE) -> Iterator[subprocess.Popen[str]]:
    """Have a command run in a slice that has printed `ready`."""
    words = [str(word) for word in (*SIGNALS, CGPU, "run", *options, "--", *command)]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.terminate()


def rest(process: subprocess.Popen[str]) -> Outcome:
    """Give a command its line of input and return the rest of what it prints."""
    output, _ = process.communicate("\n", timeout=60)
    return Outcome(process.returncode, output, "")


@pytest.mark.enforcement
def test_slice_is_exact(engine: Engine) -> None:
    """The command sees its slice everywhere, gets exactly that, and one page more is refused."""
    words = ["info", "fill=1M:64k", "expect=0x51", "alloc=64K:64k", "info"]
    outcome = run(PROBE, *words, options=["--mem", "6GiB"])
    assert outcome.returncode == 0, outcome.text
    assert {step(outcome, "info").number(field) for field in SIZES} == {6 * GIB}
    assert step(outcome, "fill").number("bytes") == 6 * GIB
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert step(outcome, "info", 1).number("free") == 0


@pytest.mark.enforcement
def test_children_are_inside(engine: Engine) -> None:
    """A child of the command, in a session of its own too, shares the slice with all others."""
    script = '"$0" info; setsid "$0" info fork=3:64M:fill:nest; "$0" alloc=1G:2m'
    outcome = run("/bin/sh", "-c", script, PROBE)
    assert [one.number("total") for one in steps(outcome) if one.name == "info"] == [GIB, GIB], outcome.text
    assert sum(one.number("bytes") for one in steps(outcome) if one.name == "fork") == GIB, outcome.text
    assert step(outcome, "alloc").number("status") == 0


def test_exit_status(engine: Engine) -> None:
    """The command's status is passed on; one that cannot run is told apart, and leaves nothing either."""
    commands: list[tuple[Sequence[str], int]] = [
        (("/bin/sh", "-c", "exit 7"), 7),
        (("/bin/sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
        (("no-such-command",), 127),
        (("/no/such/command",), 127),
        (("/etc/passwd",), 126),
    ]
    for command, status in commands:
        outcome = run(*command)
        assert outcome.returncode == status, outcome.text
        assert (f"cgpu run: {command[0]}: " in outcome.stderr) is (status in (126, 127))
        assert (groups(), engine.instances()) == ([], [])


def test_signals_are_handed_on(engine: Engine) -> None:
    """A signal to cgpu run reaches the command, which decides what comes of it."""
    traps = 'for name in INT HUP QUIT USR1; do trap "echo $name" $name; done; trap "exit 42" TERM'
    with running("/bin/sh", "-c", f"{traps}; echo ready; while :; do sleep 0.05; done") as process:
        assert process.stdout is not None
        for name in ("INT", "HUP", "QUIT", "USR1"):
            process.send_signal(signal.Signals[f"SIG{name}"])
            assert process.stdout.readline() == f"{name}\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 42


def test_interrupt_comes_once(engine: Engine) -> None:
    """Ctrl-C reaches the command from the terminal, and is not handed on a second time."""
    script = "trap 'echo interrupted' INT; echo ready; sleep 5; sleep 0.5; echo end"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(SIGNALS[0], [*SIGNALS, str(CGPU), "run", *SLICE, "--", "/bin/sh", "-c", script])
    printed = b""
    while b"end" not in printed:
        printed += os.read(terminal, 4096)
        if printed.endswith(b"ready\r\n"):
            time.sleep(0.2)
            os.write(terminal, b"\x03")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    assert (status, printed.count(b"interrupted")) == (0, 1)


@pytest.mark.enforcement
def test_command_as_another_user(engine: Engine) -> None:
    """A command that gives its rights up cannot leave its group, and keeps its slice."""
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    script = f'echo $$ >{procs_of_own_group()} || echo kept; exec "$0" info fill=64M:2m'
    outcome = run(*user, "/bin/sh", "-c", script, PROBE)
    assert outcome.stdout.startswith("kept\n"), outcome.text
    assert step(outcome, "info").number("total") == GIB
    assert step(outcome, "fill").number("bytes") == GIB


def procs_of_own_group() -> str:
    """Return the file by which a process would come into our own group."""
    group = Path("/proc/self/cgroup").read_text().rpartition("0::")[2].strip()
    whole = Path("/sys/fs/cgroup/cgroup.procs").exists()
    return f"/sys/fs/cgroup{'' if whole else '/unified'}{group.rstrip('/')}/cgroup.procs"


def test_what_the_command_leaves_is_ended(engine: Engine) -> None:
    """A process that has gone into the background ends with the slice."""
    outcome = run("/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    pid = int(outcome.stdout)
    assert outcome.returncode == 0, outcome.text
    assert (groups(), engine.instances()) == ([], [])
    eventually(lambda: not psutil.pid_exists(pid), "init has taken note of its end")


def test_refused_registration_leaves_nothing(engine: Engine) -> None:
    """On a card with less left, the command is not started."""
    with running("/bin/sh", "-c", READY, "true", options=["--mem", "14G"]) as process:
        before = groups()
        refused = run("/bin/sh", "-c", "echo ran")
        assert (refused.returncode, refused.stdout) == (125, "")
        assert "773 MiB of 15109 MiB" in refused.stderr
        # One of the test before may have gone meanwhile.
        assert set(groups()) <= set(before)
        assert len(engine.instances()) == 1
        assert rest(process).returncode == 0


def test_listener_that_is_not_taken(engine: Engine) -> None:
    """When the engine does not take the listener, the command is not started, and all is undone."""
    path, aside = RUN / "seccomp.sock", RUN / "seccomp.sock.aside"
    path.rename(aside)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def refuse() -> None:
            with server.accept()[0] as runtime:
                _, fds, _, _ = socket.recv_fds(runtime, 1 << 16, 1)
                os.close(fds[0])

        refusing = threading.Thread(target=refuse)
        refusing.start()
        outcome = run("/bin/echo", "ran")
        refusing.join()
    aside.rename(path)
    assert (outcome.returncode, outcome.stdout) == (125, "")
    assert "the engine did not take the listener of run-" in outcome.stderr


@pytest.mark.enforcement
def test_killed_run(engine: Engine) -> None:
    """When cgpu run is killed the command keeps its slice, which ends with it; the next run tidies up."""
    with running("/bin/sh", "-c", READY, PROBE, "info", "hold") as process:
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        seen = step(Outcome(0, process.stdout.readline() + process.stdout.readline(), ""), "info")
        assert seen.number("total") == GIB
        process.stdin.close()
    eventually(lambda: members() == [], "the command has ended")
    engine.await_empty()
    assert groups() != []
    assert run("/bin/true").returncode == 0


@pytest.mark.usefixtures("own_engine")
def test_no_engine(start: Start) -> None:
    """Without an engine nothing runs, and the line says what starts one."""
    start("T4").stop()
    outcome = run("/bin/echo", "ran")
    assert (outcome.returncode, outcome.stdout) == (125, "")
    assert outcome.stderr.startswith("cgpu run: the engine is not running, ")
    assert "; start it: " in outcome.stderr


def test_host_keeps_its_dev(engine: Engine) -> None:
    """Simulated cards are in a /dev of the command's own, with all that the host's has."""
    before = sorted(os.listdir("/dev"))
    inside = run("/bin/ls", "/dev").stdout.split()
    assert set(before) <= set(inside)
    assert {"nvidiactl", "nvidia0"} <= set(inside)
    assert sorted(os.listdir("/dev")) == before
    assert run("/bin/sh", "-c", "echo x >/dev/null && test -c /dev/ptmx && test -d /dev/shm").returncode == 0


def test_slice_in_a_slice(engine: Engine) -> None:
    """A process in a slice cannot have another one in it."""
    outcome = run(CGPU, "run", *SLICE, "--", "/bin/echo", "ran")
    assert (outcome.returncode, outcome.stdout) == (125, "")
    assert "has a listener already" in outcome.stderr


@pytest.mark.enforcement
@pytest.mark.usefixtures("own_engine")
def test_engine_restarts_meanwhile(engine: Engine) -> None:
    """The slice outlives the engine's process, and cgpu run takes it back from the next."""
    with running("/bin/sh", "-c", READY, PROBE, "info", "fill=64M:2m") as process:
        old = engine.kill()
        engine.await_restart(old)
        outcome = rest(process)
    assert step(outcome, "info").number("total") == GIB
    assert step(outcome, "fill").number("bytes") == GIB


@pytest.mark.usefixtures("own_engine")
def test_engine_has_stopped_meanwhile(engine: Engine) -> None:
    """Without an engine at the end the command's status still counts, and the next engine tidies up."""
    with running("/bin/sh", "-c", READY, "/bin/sh", "-c", "exit 5") as process:
        must([CGPUD, "--stop"])
        outcome = rest(process)
    assert outcome.returncode == 5
    assert "the engine takes the slice back by itself" in outcome.stdout
    assert groups() == []
    engine.start()
