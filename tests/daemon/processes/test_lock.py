# SPDX-License-Identifier: Apache-2.0
"""The node's lock, and processes by their number and their start."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.lock import HeldError, Lock
from cgpu.kmod.daemon.processes.process_identity import NOBODY, ProcessIdentity, is_unkillable
from tests.daemon.harness import ROOT
from tests.integration.commands import eventually


def test_lock_names_its_holder(tmp_path: Path) -> None:
    """The second one is told who is first; a lock of a dead process is no lock."""
    lock = Lock(tmp_path / "lock")
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        Lock(tmp_path / "lock")
    lock.release()
    Lock(tmp_path / "lock").release()


# The first thread ends, and another one keeps the process; so does a thread that no signal reaches.
HOLDING = """
import ctypes, os, sys, threading, time
from pathlib import Path
from cgpu.kmod.daemon.processes.lock import Lock
lock = Lock(Path(sys.argv[1]))
threading.Thread(target=time.sleep, args=(60,)).start()
print("locked", flush=True)
sys.stdin.readline()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_lock_of_a_daemon_that_cannot_end(tmp_path: Path) -> None:
    """A killed holder that threads keep from ending is no holder; while its first thread lives it is."""
    path, pipe = tmp_path / "lock", subprocess.PIPE
    command = [sys.executable, "-c", HOLDING, str(path)]
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(HeldError, match=f"already runs as process {holder.pid} "):
        Lock(path)
    holder.stdin.write("\n")
    holder.stdin.flush()
    eventually(lambda: is_unkillable(process_identity.of(holder.pid)), "its first thread goes on")
    lock = Lock(path)
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        Lock(path)
    lock.release()
    holder.kill()
    holder.communicate()


@pytest.mark.parametrize("written", ["", "1073741824 7\n"])
def test_lock_of_a_container(tmp_path: Path, written: str) -> None:
    """Root of a container that sees the file, also read-only, has the lock and that of the folder: no daemon.

    It would have it from a daemon's death on, and no other daemon would start. written: by the dead one.
    """
    path = tmp_path / "lock"
    path.write_text(written)
    for place in (path, tmp_path):
        fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX)
    lock = Lock(path)
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        Lock(path)
    lock.release()
    Lock(path).release()


def test_lock_of_a_daemon_whose_keeper_is_dead(tmp_path: Path) -> None:
    """The daemon has a copy of its keeper's lock, and a file of its own that names it."""
    path, started = tmp_path / "lock", tmp_path / "started"
    path.write_text("1073741824 7\n")
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
    process_identity.write_daemon(tmp_path / "pid", started)
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        Lock(path, started)


def test_what_is_no_identity() -> None:
    """A text that is not a number and a start names no process."""
    for text in (b"", b"12", b"12 345 6", b"-1 345", b"12 x", "\N{ARABIC-INDIC DIGIT ONE}".encode()):
        assert process_identity.parse(text) == NOBODY


def test_own_comes_through() -> None:
    """A process's own text names it, and no process that started at another time."""
    own = process_identity.own()
    assert process_identity.parse(own.text().encode()) == own
    assert own.is_meant()
    assert not ProcessIdentity(own.pid, own.started + 1).is_meant()
    assert not NOBODY.is_meant()
    assert not is_unkillable(own)


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
    assert sleeper.wait(240) == -signal.SIGTERM
    assert not there.signal(signal.SIGTERM)
