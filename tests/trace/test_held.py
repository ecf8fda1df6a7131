# SPDX-License-Identifier: Apache-2.0
"""Memory of the observed that is never filled in: the recorder waits for none of it for ever."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.trace.format import load
from tests.attacks.silent import silent_file
from tests.sim.support import BUILD
from tests.trace.support import Recorder, calls

pytestmark = pytest.mark.root

# A call whose arguments lie in a file that is never read, or that a userfaultfd has to fill in.
HOLDS = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
node, kind = os.open(sys.argv[1] + "/nvidiactl", os.O_RDWR), sys.argv[2]
if kind == "userfaultfd":
    page = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE)
    fd = libc.syscall(323, 0)
    api, where = (ctypes.c_uint64 * 3)(0xAA), ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert libc.ioctl(fd, ctypes.c_ulong(0xC018AA3F), api) == 0
    assert libc.ioctl(fd, ctypes.c_ulong(0xC020AA00), (ctypes.c_uint64 * 4)(where, 1 << 16, 1)) == 0
else:
    page = mmap.mmap(os.open(kind, os.O_RDONLY), 1 << 16, flags=mmap.MAP_PRIVATE, prot=3)
    where = ctypes.addressof(ctypes.c_char.from_buffer(page))
libc.ioctl(node, ctypes.c_ulong(3 << 30 | 48 << 16 | 0x46 << 8 | 0x2B), ctypes.c_void_p(where))
"""
PATIENCE_S = 20.0


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A file that its file system never reads, and the process that serves it."""
    with silent_file(tmp_path / "silent") as served:
        yield served


def start(recorder: Recorder, kind: str) -> subprocess.Popen[bytes]:
    """Record a program that starts the one that holds, and a probe two seconds later."""
    dev = str(recorder.mount)
    holds = [sys.executable, "-I", "-c", HOLDS, dev, kind]
    probe = [str(BUILD / "cgpu-probe"), "--dev", dev, "alloc=64K", "alloc=64K"]
    script = f"""import subprocess, time
held = subprocess.Popen({holds!r})
time.sleep(2)
print(subprocess.run({probe!r}, stdout=-3).returncode, held.pid, flush=True)
held.wait()
"""
    return subprocess.Popen(recorder.command([sys.executable, "-I", "-c", script]), stdout=subprocess.PIPE)


def held_process(process: subprocess.Popen[bytes]) -> int:
    """Return the process that holds, when the probe has ended well."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    assert ready, "another process is not recorded"
    line = os.read(process.stdout.fileno(), 256).decode()
    status, held = line.split()
    assert status == "0"
    return int(held)


@pytest.mark.parametrize("kind", ["file", "userfaultfd"])
def test_others_are_recorded(
    recorder: Recorder, silent: tuple[str, subprocess.Popen[str]], kind: str
) -> None:
    """A process whose arguments are never there is recorded without them, and others as ever."""
    path, server = silent
    with start(recorder, path if kind == "file" else kind) as process:
        try:
            os.kill(held_process(process), signal.SIGKILL)
        except AssertionError:
            process.kill()
            raise
        finally:
            # All that waits for its file goes on.
            server.communicate("")
        process.wait(PATIENCE_S)
    trace = load(recorder.file)
    made = calls(trace, "NV_ESC_RM_ALLOC")
    assert sum(event.given.get("hClass") == 0x40 for event in made) == 2
    assert [event.form for event in made if event.rest.get("unread")] == [""]


def test_the_recorder_can_be_killed(recorder: Recorder, silent: tuple[str, subprocess.Popen[str]]) -> None:
    """A recorder that a file system has held up ends by SIGKILL, before the file system does."""
    path, server = silent
    with start(recorder, path) as process:
        time.sleep(3)
        process.kill()
        try:
            process.wait(PATIENCE_S)
        finally:
            server.communicate("")
