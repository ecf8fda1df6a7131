# SPDX-License-Identifier: Apache-2.0
"""Programs that try to have calls answered that never ran, and to keep the daemon from its other work."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.process_identity import is_unkillable
from tests.attacks.silent import silent_file
from tests.daemon.harness import MIB, Daemon, built, long_id
from tests.integration.commands import eventually

pytestmark = pytest.mark.root

ONE = f"gpu=0:{1024 * MIB}"
STALLED = 16  # threads, of each process
WORKERS_SHARE = 4
SYS_IOCTL = 16


@pytest.fixture(scope="module")
def repeats() -> Path:
    """A program whose threads undo each other's work."""
    return built("repeats")


@pytest.fixture(scope="module")
def stalling() -> Path:
    """A program whose calls never end."""
    return built("stalling")


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A file that its file system never reads."""
    with silent_file(tmp_path / "silent") as (path, _):
        yield path


def test_repeated_call_runs_again(daemon: Daemon, repeats: Path) -> None:
    """A call that repeats one to the last byte runs again when another thread has undone the first."""
    sliced = daemon.slice(1, ONE, program=repeats)
    steps = [sliced.line(name) for name in ("free ", "other-alloc", "free-again", "alloc ", "other-free")]
    steps += [sliced.line(name) for name in ("alloc-again", "other-free")]
    assert [step.split()[1] for step in steps] == ["status=0x0"] * 7
    sliced.line("done")
    assert daemon.used(sliced) == 0
    sliced.finish()


def in_ioctl(pid: int) -> bool:
    """Tell whether a process waits for the answer to a driver call."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith(f"{SYS_IOCTL} ")


def test_stalled_calls_hold_up_only_their_own(
    make_daemon: Callable[..., Daemon], stalling: Path, silent: str
) -> None:
    """Calls that never end take a bounded share of workers: others are served, also by the next daemon.

    No signal ends such a wait: cgpud is replaced all the same.
    """
    daemon = make_daemon()
    words = (str(STALLED), silent)
    hostile = [daemon.slice(seed, ONE, *words, program=stalling) for seed in (1, 2, 3)]
    for one in hostile:
        one.line("stalling")
    # A second listener of the same container has no share of its own: not even its first call is answered.
    # Started sooner, it could take the share of the first, which would never come to print its line.
    second = daemon.slice(1, "", *words, register=False, program=stalling)
    eventually(lambda: in_ioctl(second.process.pid), "it made no call")
    out = daemon.slice(4, ONE, "alloc=1G", "info").finish()
    assert "status=0x0" in out
    assert daemon.status()["engine"]["workers"] <= 3 * WORKERS_SHARE + 4
    pid = daemon.pid()
    assert daemon.command("--stop").returncode == 0
    assert is_unkillable(process_identity.of(pid)) or not Path(f"/proc/{pid}").exists()
    daemon.start()
    assert "status=0x0" in daemon.slice(5, ONE, "alloc=1G").finish()
    pid = daemon.pid()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: daemon.pid() != pid, "it did not come back")
    eventually((daemon.tree / "version").exists, "the tree did not come back")
    assert "status=0x0" in daemon.slice(6, ONE, "alloc=1G").finish()


def test_log_cannot_be_filled(make_daemon: Callable[..., Daemon]) -> None:
    """A container that asks for unknown classes in turn gets a few lines of the log, not one per call."""
    daemon = make_daemon()
    daemon.slice(1, ONE, *["class=0x7001", "class=0x7002"] * 50).finish()
    daemon.slice(2, ONE, "class=0x7001").finish()
    own = f"container {long_id(2)}: driver class 0x7001 is not known here"
    eventually(lambda: own in daemon.log(), "another container has no lines of its own")
    # Ten and one, and one more for every ten seconds that this took.
    assert 11 <= daemon.log().count("is not known here") <= 15


def test_dead_driver_is_told(make_daemon: Callable[..., Daemon]) -> None:
    """A driver that answers no more shows in the status and once in the log; nothing is registered on it."""
    daemon = make_daemon()
    os.kill(json.loads((daemon.run / "sim.json").read_text())["pid"], signal.SIGKILL)
    eventually(lambda: daemon.status()["driver_error"] is not None, "the status says that all is well")
    with pytest.raises(OSError, match="Input/output error"):
        daemon.write("inst_ctl", f"create id={'a' * 64} pid={os.getpid()} {ONE}")
    daemon.write("inst_ctl", f"destroy id={'a' * 64}")
    assert daemon.log().count("the driver does not answer") == 1
