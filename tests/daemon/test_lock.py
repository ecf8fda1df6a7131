# SPDX-License-Identifier: Apache-2.0
"""The node's lock, and processes by their number and their start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu import process_identity
from cgpu.kmod.daemon.lock import HeldError, become_daemon, become_keeper
from cgpu.kmod.daemon.places import Places
from cgpu.process_identity import NOBODY, ProcessIdentity, is_unkillable
from tests.daemon.harness import ROOT
from tests.integration.commands import eventually


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Files of a daemon in a folder of the test's."""
    return Places(tmp_path)


def check_is_held(places: Places, pid: int) -> None:
    """Check that another process can be neither keeper nor daemon, and is told who is."""
    for become in (become_keeper, become_daemon):
        with pytest.raises(HeldError, match=f"already runs as process {pid} "):
            become(places)


@contextlib.contextmanager
def signed(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a process that has signed a file, and whose first thread ends at the first line."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDING, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "signed\n"
        try:
            yield holder
        finally:
            holder.kill()


# The first thread ends, and another one keeps the process; so does a thread that no signal reaches.
HOLDING = """
import ctypes, sys, threading, time
from pathlib import Path
from cgpu.kmod.daemon.lock import sign
sign(Path(sys.argv[1]))
threading.Thread(target=time.sleep, args=(60,)).start()
print("signed", flush=True)
sys.stdin.readline()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_keeper_is_the_only_one(places: Places) -> None:
    """The second one is told who is first; a dead process keeps nobody out."""
    with signed(places.lock) as keeper:
        check_is_held(places, keeper.pid)
    become_keeper(places)
    assert process_identity.read(places.lock) == process_identity.own()


def test_keeper_that_cannot_end(places: Places) -> None:
    """A killed keeper that threads keep from ending keeps nobody out, once its first thread has ended."""
    with signed(places.lock) as keeper:
        check_is_held(places, keeper.pid)
        assert keeper.stdin is not None
        keeper.stdin.write("\n")
        keeper.stdin.flush()
        eventually(lambda: is_unkillable(process_identity.of(keeper.pid)), "its first thread goes on")
        become_keeper(places)


@pytest.mark.parametrize("written", ["", "1073741824 7\n"])
def test_files_locked_by_a_container(places: Places, written: str) -> None:
    """Root of a container that sees the files, also read-only, can lock them and the folder: no daemon.

    written: by a dead daemon.
    """
    places.lock.write_text(written)
    for place in (places.lock, places.run):
        fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX)
    become_keeper(places)
    become_daemon(places)


def test_daemon_whose_keeper_is_dead(places: Places) -> None:
    """The daemon has a file of its own that names it, and keeps out another keeper."""
    places.lock.write_text("1073741824 7\n")
    become_daemon(places)
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        become_keeper(places)


def test_daemon_of_its_keeper(places: Places) -> None:
    """The daemon of the keeper that lives starts, and starts again as another program."""
    places.lock.write_text(process_identity.of(os.getppid()).text())
    for _ in range(2):
        become_daemon(places)
    assert process_identity.read(places.started) == process_identity.own()


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
