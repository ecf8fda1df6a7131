# SPDX-License-Identifier: Apache-2.0
"""Processes by number and start: who holds the lock, and who is the daemon."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.process_identity import NOBODY, ProcessIdentity, is_unkillable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"12 345\n", ProcessIdentity(12, 345)),
        (b"12\n", ProcessIdentity(12, 0)),
        (b"", NOBODY),
        (b"12 345 6", NOBODY),
        (b"-1 345", NOBODY),
        (b"12 x", NOBODY),
        ("\N{ARABIC-INDIC DIGIT ONE}".encode(), NOBODY),
    ],
)
def test_forms(text: bytes, expected: ProcessIdentity) -> None:
    """Number and start are read, and the number alone as earlier versions wrote it; nothing else."""
    assert process_identity.parse(text) == expected


def test_own_comes_through() -> None:
    """What a process writes of itself names it, and nobody who started at another time."""
    own = process_identity.own()
    assert process_identity.parse(own.text().encode()) == own
    assert own.is_meant()
    assert not ProcessIdentity(own.pid, own.started + 1).is_meant()
    assert not NOBODY.is_meant()


def test_start_time() -> None:
    """A process has a start time as long as it lives; a zombie's does not count as living."""
    assert process_identity.start_time(os.getpid()) > 0
    assert process_identity.start_time(1 << 30) == 0
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert process_identity.start_time(ended.pid) > 0
    assert process_identity.living_start_time(ended.pid) == 0
    ended.wait()


def test_signals_reach_only_the_one_that_is_meant() -> None:
    """A process that started at another time, or whose start is not known, gets no signal."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    there = process_identity.of(sleeper.pid)
    assert not ProcessIdentity(there.pid, there.started + 1).signal(signal.SIGKILL)
    assert not ProcessIdentity(there.pid, 0).signal(signal.SIGKILL)
    assert sleeper.poll() is None
    assert there.signal(signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM
    assert not there.signal(signal.SIGTERM)


def test_the_daemon_has_two_files(tmp_path: Path) -> None:
    """The second file counts only beside its own number: a former version leaves it as it was."""
    pid, started = tmp_path / "pid", tmp_path / "started"
    process_identity.write_daemon(pid, started)
    assert pid.read_text() == f"{os.getpid()}\n"
    assert process_identity.read_daemon(pid, started) == process_identity.own()
    pid.write_text("77\n")
    assert process_identity.read_daemon(pid, started) == ProcessIdentity(77, 0)
    started.unlink()
    assert process_identity.read_daemon(pid, started) == ProcessIdentity(77, 0)


def test_living_processes_can_end() -> None:
    """A process that lives is no unkillable one."""
    assert not is_unkillable(process_identity.own())
