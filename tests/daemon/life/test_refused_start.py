# SPDX-License-Identifier: Apache-2.0
"""Starts that are refused, and stops of a daemon that does not come up: told at once, and nothing goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from cgpu.kmod.daemon.main import WAIT_S
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, Daemon, Sliced
from tests.integration.commands import eventually

OTHER_CARDS = "--simulate A10: simulated T4 is in use by containers; stop them first"
CONFIG = "log_level: info\n"


def workers_of(keeper: int) -> list[psutil.Process]:
    """Return the daemons below a keeper; simulated cards come to be its children as well."""
    return [one for one in psutil.Process(keeper).children() if one.name() != "cgpu-sim"]


def refuse(daemon: Daemon) -> str:
    """Ask for a daemon with other cards than containers use; return at once what it says."""
    began = time.monotonic()
    done = daemon.command("--simulate", "A10", "--tree", str(daemon.tree))
    assert done.returncode == 1
    assert time.monotonic() - began < WAIT_S
    return done.stderr


@pytest.fixture
def stopped(make_daemon: MakeDaemon) -> tuple[Daemon, Sliced]:
    """Return a daemon that was stopped, and a container that waits for the next one."""
    daemon = make_daemon("T4", CONFIG)
    sliced = daemon.slice(1, f"gpu=0:{64 * MIB}", "alloc=2M", "hold", "alloc=2M", "count", until="alloc")
    assert daemon.command("--stop").returncode == 0
    return daemon, sliced


@pytest.fixture
def failing(make_daemon: MakeDaemon) -> tuple[Daemon, Sliced]:
    """Return a daemon that was killed and cannot come back, and a container that waits for it."""
    daemon = make_daemon("T4", CONFIG)
    sliced = daemon.slice(1, f"gpu=0:{64 * MIB}", "alloc=2M", "hold", "alloc=2M", "count", until="alloc")
    (daemon.run.parent / "config.yaml").write_text("log_level: loud\n")
    os.kill(daemon.pid(), signal.SIGKILL)
    eventually(lambda: daemon.log().count("starting it again") > 1, "the keeper does not try again")
    return daemon, sliced


def test_told_at_once_and_not_repeated(stopped: tuple[Daemon, Sliced]) -> None:
    """The start says why it was refused; it is not tried again, and containers wait on.

    A second stop, with only descriptors to be held, is done and changes nothing.
    """
    daemon, sliced = stopped
    assert refuse(daemon) == f"cgpud: {OTHER_CARDS}\n"
    keeper = daemon.lock_holder()
    # The keeper would try again by the clock, within 0.1 s; nothing else tells that it does not.
    time.sleep(0.5)
    assert workers_of(keeper) == []
    assert daemon.log().count(OTHER_CARDS) == 1
    began = time.monotonic()
    done = daemon.command("--stop")
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < WAIT_S
    daemon.start()
    assert "bytes=4194304 " in sliced.finish("\n")


def test_nothing_is_left_of_it(stopped: tuple[Daemon, Sliced]) -> None:
    """With the last container the keeper ends, too: a refused start leaves no process."""
    daemon, sliced = stopped
    refuse(daemon)
    keeper = daemon.lock_holder()
    sliced.kill()
    eventually(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper stays")


def test_stop_ends_the_attempts(failing: tuple[Daemon, Sliced]) -> None:
    """A daemon that cannot come up is no longer tried after a stop; files of containers are kept."""
    daemon, sliced = failing
    done = daemon.command("--stop")
    assert (done.returncode, done.stderr) == (0, "")
    attempts = daemon.log().count("log_level")
    assert workers_of(daemon.lock_holder()) == []
    # The next attempt was due by the clock, within 0.5 s.
    time.sleep(1.0)
    assert daemon.log().count("log_level") == attempts
    (daemon.run.parent / "config.yaml").write_text(CONFIG)
    daemon.start()
    assert "bytes=4194304 " in sliced.finish("\n")


def test_forced_stop_ends_a_start(failing: tuple[Daemon, Sliced]) -> None:
    """A forced stop ends keeper, daemon and cards also while the daemon is just being started."""
    daemon, _ = failing
    keeper = daemon.lock_holder()
    began = time.monotonic()
    done = daemon.command("--stop", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < WAIT_S
    eventually(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper stays")
    assert not (daemon.run / "sim.json").exists()


def test_attempts_go_on_after_a_refusal(failing: tuple[Daemon, Sliced]) -> None:
    """A start by other means is told why not; the attempts go on as before, and the daemon comes back."""
    daemon, sliced = failing
    assert refuse(daemon) == f"cgpud: {OTHER_CARDS}\n"
    (daemon.run.parent / "config.yaml").write_text(CONFIG)
    eventually((daemon.run / "control.sock").exists, "it does not come back")
    assert "bytes=4194304 " in sliced.finish("\n")
