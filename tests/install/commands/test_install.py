# SPDX-License-Identifier: Apache-2.0
"""The command lines, the lock, and how commands of the system are run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cgpu import paths
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.install.commands import install as install_command
from cgpu.install.commands import uninstall as uninstall_command
from cgpu.install.places import LOCK
from cgpu.install.transaction import lock
from cgpu.install.transaction.runner import SystemRunner, must
from cgpu.node_files import below

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
    deadline = time.monotonic() + 5
    while holders(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert holders(mark) == []


def holders(path: Path) -> list[int]:
    """Return the processes that have a file open."""
    found = psutil.process_iter(["open_files"])
    return [one.pid for one in found if str(path) in {file.path for file in one.info["open_files"] or ()}]


def test_one_at_a_time(tmp_path: Path) -> None:
    """Who comes second waits, and goes on when the first is done; after a while it gives up with a line."""
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
from cgpu.install.transaction import lock
from cgpu.install.transaction.runner import SystemRunner
with lock.held(Path({str(tmp_path)!r})) as fd:
    SystemRunner((fd,)).run(("sh", "-c", "echo $$ >{tmp_path}/pid; exec sleep 60"))
"""
    installer = subprocess.Popen([sys.executable, "-c", code])
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.02)
    installer.kill()
    installer.wait()
    with pytest.raises(CgpuError, match="or one that it has started"), lock.held(tmp_path, wait=0.3):
        pass
    os.kill(int(pid.read_text()), signal.SIGKILL)
    with lock.held(tmp_path, wait=10):
        pass


def test_only_root(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who is not root is refused with one line."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert install_command.main([]) == 1
    assert uninstall_command.main([]) == 1
    assert capsys.readouterr().err == (
        "cgpu install: user 1000: only root may change a node; run it as root, such as by sudo\n"
        "cgpu uninstall: user 1000: only root may change a node; run it as root, such as by sudo\n"
    )


def test_no_slices_while_draining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever registers while slices are not given out is refused, before the engine is asked."""
    mark = tmp_path / "draining"
    monkeypatch.setattr(paths, "DRAINING", str(mark))
    (tmp_path / "inst_ctl").write_text("")
    tree = Tree(str(tmp_path))
    tree.register("abc", 1, [])
    assert (tmp_path / "inst_ctl").read_text().startswith("create id=abc")
    mark.touch()
    with pytest.raises(CgpuError, match="container def: no slices are given out while OpenCGPU is removed"):
        tree.register("def", 1, [])
    assert "def" not in (tmp_path / "inst_ctl").read_text()


def test_a_signal_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """SIGTERM ends the work as an error does; a second one does not end the taking back."""

    def work(_installer: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGTERM)
    assert install_command.run("cgpu install", work, dry_run=True) == 1
    assert capsys.readouterr().err == "cgpu install: interrupted; what was done is taken back\n"
    assert signal.getsignal(signal.SIGTERM) == before
