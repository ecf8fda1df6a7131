# SPDX-License-Identifier: Apache-2.0
"""The command lines, the lock, how commands of the system are run, and to what the commands print."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cgpu.errors import CgpuError
from cgpu.install import lock
from cgpu.install.commands import install as install_command
from cgpu.install.places import LOCK
from cgpu.install.runner import SystemRunner, must
from cgpu.node_files import below
from tests.integration.commands import Outcome, call, eventually

SLEEPER = "import subprocess, time; subprocess.Popen(['/bin/sleep', '60']); time.sleep(60)"


def test_failures_are_one_line() -> None:
    """A command that fails is named with its status and the last line that it printed."""
    with pytest.raises(CgpuError, match=r"^sh -c 'echo a; echo b; exit 3': exit status 3: b$"):
        must(SystemRunner(), ("sh", "-c", "echo a; echo b; exit 3"))
    with pytest.raises(CgpuError, match="no-such-command: is in none of /usr/local/sbin"):
        must(SystemRunner(), ("no-such-command",))


def test_the_environment_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command gets no variable of the caller's, and finds programs in fixed folders."""
    monkeypatch.setenv("LD_PRELOAD", "/tmp/x.so")
    monkeypatch.setenv("PATH", "/tmp")
    said = must(SystemRunner(), ("env",)).output.split()
    names = {line.partition("=")[0] for line in said}
    assert names <= {"PATH", "HOME", "LC_ALL", "DOCKER_CONTEXT", "PWD", "SHLVL", "_"}


def test_a_command_that_hangs(tmp_path: Path) -> None:
    """One that takes too long is ended with all that it has started."""
    mark = tmp_path / "lock"
    with mark.open("w") as held, pytest.raises(CgpuError, match="did not end within 1 s"):
        SystemRunner((held.fileno(),)).run((sys.executable, "-c", SLEEPER), timeout=1)
    eventually(lambda: holders(mark) == [], "none of them has the lock")


def holders(path: Path) -> list[int]:
    """Return the processes that have a file open."""
    found = psutil.process_iter(["open_files"])
    return [one.pid for one in found if str(path) in {file.path for file in one.info["open_files"] or ()}]


def test_one_at_a_time(tmp_path: Path) -> None:
    """A second command waits, and goes on when the first is done; after a while it gives up with a line."""
    order: list[str] = []

    def second() -> None:
        with lock.held(tmp_path, order.append):
            order.append("second")

    with lock.held(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        while not order:
            time.sleep(0.01)
        with (
            pytest.raises(CgpuError, match="another cgpu command changes this node"),
            lock.held(tmp_path, wait=0),
        ):
            pass
        order.append("first")
    thread.join()
    assert order[1:] == ["first", "second"]
    assert not below(tmp_path, LOCK).exists()


def test_a_killed_installer_leaves_its_command_the_lock(tmp_path: Path) -> None:
    """While a command of a killed installer still works nobody else begins."""
    code = f"""
from pathlib import Path
from cgpu.install import lock
from cgpu.install.runner import SystemRunner
with lock.held(Path({str(tmp_path)!r})) as fd:
    SystemRunner((fd,)).run(("sh", "-c", "echo $$ >{tmp_path}/pid; exec sleep 60"))
"""
    installer = subprocess.Popen([sys.executable, "-c", code])
    pid = tmp_path / "pid"
    eventually(lambda: pid.exists() and pid.read_text().strip(), "the command has begun")
    installer.kill()
    installer.wait()
    with pytest.raises(CgpuError, match="or one that it has started"), lock.held(tmp_path, wait=0.3):
        pass
    os.kill(int(pid.read_text()), signal.SIGKILL)
    with lock.held(tmp_path, wait=10):
        pass


def test_a_new_lock_has_no_name_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root of a container that sees the folder, also read-only, cannot be faster, and keep the lock."""
    path, flock = below(tmp_path, LOCK), fcntl.flock
    was_there: list[bool] = []

    def looked(fd: int, operation: int) -> None:
        was_there.append(path.exists())
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", looked)
    with lock.held(tmp_path):
        assert path.exists()
    assert was_there[0] is False


def test_a_signal_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """SIGTERM ends the work as an error does; a second one ends nothing."""

    def work(_installer: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGTERM)
    assert install_command.run("cgpu install", work, dry_run=True) == 1
    assert capsys.readouterr().err == (
        "cgpu install: interrupted; what was done stays: cgpu install goes on, cgpu uninstall takes it back\n"
    )
    assert signal.getsignal(signal.SIGTERM) == before


EXPLAIN = (sys.executable, "-m", "cgpu.main", "config", "explain")
# Says which files have the numbers of the standard streams, and that what is opened next has none of them.
LOOK = """
import os, sys
from cgpu import main
def look(words):
    with open("/dev/null") as other:
        print("out", flush=True)
        sys.stderr.write(str(other.fileno()))
        sys.exit(0 if other.fileno() > 2 and sys.stdin.read() == "" else 9)
sys.modules["look"] = type(sys)("look")
sys.modules["look"].main = look
main.SUBCOMMANDS["look"] = main.Subcommand("look", "")
sys.exit(main.main(["look"]))
"""


def shell(redirections: str, *words: str) -> Outcome:
    """Run a command with the redirections of a shell."""
    return call(["sh", "-c", f'"$@" {redirections}', "sh", *words])


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    """A caller without standard streams gets the work done; no file takes their numbers."""
    done = shell(closed, *EXPLAIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert shell(closed, sys.executable, "-c", LOOK).returncode == 0


def test_a_full_disk() -> None:
    """The command reports a failed write to its output in one line."""
    done = shell(">/dev/full", *EXPLAIN)
    assert done.returncode == 1
    assert done.stderr == "cgpu: standard output: No space left on device\n"


def test_a_reader_who_leaves() -> None:
    """A reader that closes the pipe ends the command, as it ends other programs."""
    done = shell("| head -n 0; echo $?", "sh", "-c", '"$@"; echo $? >&2', "sh", *EXPLAIN)
    assert done.stderr in ("141\n", "0\n")  # 0: all was in the pipe before head had ended


def test_a_locale_that_lacks_characters() -> None:
    """A character that cannot be printed ends nothing."""
    work = "import sys; from cgpu import main; main._streams(); print('gr\\u00f6\\u00dfe \\udcff')"
    said = subprocess.run(
        [sys.executable, "-c", work],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert said.stdout == b"gr\\xf6\\xdfe \\udcff\n"


def test_a_terminal_is_not_steered(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and lines of files are shown with what would steer a terminal written out."""
    install_command.say("a\x1b[31m\tö\r\x9b1\x00")
    assert capsys.readouterr().out == "a\\x1b[31m\tö\\r\\x9b1\\x00\n"
