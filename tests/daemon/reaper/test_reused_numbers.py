# SPDX-License-Identifier: Apache-2.0
"""Remains of a process that has ended, and whose number another one has got."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cgpu import process_identity
from cgpu.kmod.daemon.lock import HeldError, become_keeper
from cgpu.kmod.daemon.places import Places
from tests.daemon.harness import MIB, Daemon
from tests.daemon.memory.test_exports import copied
from tests.integration.commands import eventually

LAST = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 60
PAUSE_S = 0.5  # a process of another test that has the number ends meanwhile

# Its first thread has ended, and another one keeps the process.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall(60, 0)
"""

# A daemon whose keeper has died.
HANDED_ON = """
import os, sys
from pathlib import Path
from cgpu.kmod.daemon import lock
from cgpu.kmod.daemon.places import Places
places = Places(Path(sys.argv[1]))
lock.become_keeper(places)
if os.fork() > 0:
    os._exit(0)
lock.become_daemon(places)
print(os.getpid(), flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(
    not LAST.exists(), reason="this kernel gives no process number that one asks for"
)


def with_number(number: int, start: Callable[[int], subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """Start processes until one has the number."""
    for attempt in range(TRIES):
        LAST.write_text(str(number - 1))
        process = start(attempt)
        if process.pid == number:
            return process
        process.kill()
        process.communicate()
        time.sleep(PAUSE_S)
    pytest.skip(f"process number {number} could not be had")


SOFT = 4


def control_node(process: int) -> int:
    """Return the number of a process's descriptor of the driver's control node."""
    files = Path(f"/proc/{process}/fd")
    return next(int(fd.name) for fd in files.iterdir() if os.readlink(fd).endswith("/nvidiactl"))


def test_files_of_a_stranger_are_not_taken(fresh: Daemon) -> None:
    """The engine does not seek a dead client's file in a process outside that has the client's number.

    That process has the very file that the client lives on: a search among its descriptors would find it.
    """
    fresh.write("0/policy", f"{SOFT}\n")
    stays = fresh.slice(1, f"gpu=0:{1024 * MIB}:1", "hold", until="hold")
    dies = fresh.enter(stays, "group", "hold", until="hold")
    number = dies.process.pid
    client = copied(number, control_node(number))
    dies.process.kill()
    dies.process.communicate()
    stranger = with_number(
        number, lambda _: subprocess.Popen(["sleep", "1000"], pass_fds=[client], text=True)
    )
    os.close(client)
    try:
        before = fresh.status()["engine"]["time_slices"]
        fresh.write(f"0/{stays.id[:12]}/weight", "3\n")
        eventually(lambda: fresh.status()["engine"]["time_slices_left"] == 1, "the group is not missed")
        assert fresh.status()["engine"]["time_slices"] == before
    finally:
        stranger.kill()
        stranger.communicate()


def test_the_holders_number_is_not_the_holder(tmp_path: Path) -> None:
    """A process that has a dead keeper's number, and cannot end, is not the keeper: its daemon is found."""
    places, pipe = Places(tmp_path), subprocess.PIPE
    command = [sys.executable, "-c", HANDED_ON, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[3])
    assert holder.stdout is not None
    assert holder.stdin is not None
    runs = holder.stdout.readline().strip()
    holder.wait()
    command = [sys.executable, "-c", HEADLESS]
    stranger = with_number(holder.pid, lambda _: subprocess.Popen(command, text=True))
    try:
        first = psutil.Process(stranger.pid)
        eventually(lambda: first.status() == psutil.STATUS_ZOMBIE, "its first thread goes on")
        with pytest.raises(HeldError, match=f"already runs as process {runs} "):
            become_keeper(places)
        holder.stdin.close()
        holder.stdout.read()
        holder.stdout.close()
        eventually(lambda: not process_identity.read(places.started).lives(), "the daemon ends")
        become_keeper(places)
    finally:
        stranger.kill()
        stranger.wait()
