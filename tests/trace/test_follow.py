# SPDX-License-Identifier: Apache-2.0
"""Processes, threads, and descriptors that travel."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from cgpu.trace.format import Trace, load
from tests.integration.commands import must
from tests.sim.support import BUILD
from tests.trace.support import Recorder, Words, calls, memory

pytestmark = pytest.mark.root
OPEN = "ctl = os.open(MOUNT + '/nvidiactl', os.O_RDWR)\n"
IOCTL = "import fcntl\nask = lambda fd: fcntl.ioctl(fd, 3 << 30 | 8 << 16 | 0x46 << 8 | 214, bytes(8))\n"


def files_of_calls(trace: Trace) -> list[int]:
    """Return the open file of each driver call."""
    return [event.file for event in trace.events if event.is_driver_call]


def test_fork(recorder: Recorder) -> None:
    """Children have numbers of their own and open files of their own."""
    trace = recorder.probe("fork=3:1M")
    children = [event.rest["child"] for event in calls(trace, "fork")]
    assert len(set(children)) == 3
    assert {event.pid for event in memory(trace)} == set(children)
    assert len({event.file for event in memory(trace)}) == 3
    assert {event.pid for event in calls(trace, "exit")} == {1, *children}


def test_threads(recorder: Recorder) -> None:
    """Threads share the process's number and have their own as threads."""
    trace = recorder.probe("threads=3:1M")
    threads = [event.rest["child_tid"] for event in calls(trace, "thread")]
    assert {(event.pid, event.tid) for event in memory(trace)} == {(1, tid) for tid in threads}
    assert len(calls(trace, "exit")) == 1


def test_own_table(recorder: Recorder) -> None:
    """A thread with a descriptor table of its own is followed through it."""
    trace = recorder.probe("unshare=64K")
    (alloc,) = memory(trace)
    assert alloc.status == 0
    opened = {event.file for event in calls(trace, "open") if event.tid == alloc.tid}
    assert alloc.file in opened


def test_exec(recorder: Recorder) -> None:
    """A descriptor that stays open over exec is the same file, one that does not is closed by it."""
    trace = recorder.python(
        OPEN + "gone = os.open(MOUNT + '/nvidia0', os.O_RDWR | os.O_CLOEXEC)\nos.set_inheritable(ctl, True)\n"
        "os.execv(sys.executable, [sys.executable, '-I', '-c', "
        f"{IOCTL!r} + 'ask(%d)' % ctl])"
    )
    ctl, card = calls(trace, "open")
    assert [event.file for event in calls(trace, "close") if event.by == "exec"] == [card.file]
    assert files_of_calls(trace) == [ctl.file]
    assert len(calls(trace, "exec")) == 2


def test_duplicates(recorder: Recorder) -> None:
    """dup, dup2 and fcntl lead to one file, which ends with the last of them."""
    trace = recorder.python(
        OPEN + IOCTL + "import fcntl\n"
        "more = [os.dup(ctl), os.dup2(ctl, 77), fcntl.fcntl(ctl, fcntl.F_DUPFD, 50)]\n"
        "os.close(ctl)\n[ask(fd) for fd in more]\n[os.close(fd) for fd in more]"
    )
    assert len(calls(trace, "dup")) == 3
    assert len(set(files_of_calls(trace))) == 1
    assert [event.last for event in calls(trace, "close")] == [False, False, False, True]


def test_over_fork(recorder: Recorder) -> None:
    """A child's inherited descriptor is the parent's file, and its end alone does not end the file."""
    trace = recorder.python(
        OPEN + IOCTL + "child = os.fork()\nask(ctl)\nif child: os.waitpid(child, 0); ask(ctl)"
    )
    assert set(files_of_calls(trace)) == {1}
    assert [(event.pid, event.last) for event in calls(trace, "close")] == [(2, False), (1, True)]


def test_over_a_socket(recorder: Recorder) -> None:
    """A descriptor that came over a socket is found, as the same file."""
    trace = recorder.python(
        OPEN + IOCTL + "import socket\n"
        "a, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [ctl])\n"
        "got = socket.recv_fds(b, 1, 1)[1][0]\nask(got)"
    )
    (found,) = calls(trace, "found")
    assert found.fd != calls(trace, "open")[0].fd
    assert files_of_calls(trace) == [found.file] == [calls(trace, "open")[0].file]


def test_close_range(recorder: Recorder) -> None:
    """close_range ends what it covers."""
    trace = recorder.python(OPEN + "os.closerange(3, 4096)")
    assert [(event.by, event.last) for event in calls(trace, "close")] == [("close", True)]


def test_refused_open(recorder: Recorder) -> None:
    """An open of a node that fails is there with its error; other paths never are."""
    trace = recorder.python(
        "for name in ('nvidia7', 'secret-name'):\n"
        "    try: os.open(MOUNT + '/' + name, os.O_RDWR)\n    except OSError: pass"
    )
    assert [(event.node, event.result) for event in calls(trace, "open")] == [("nvidia7", -2)]
    assert "secret" not in recorder.file.read_text()


def test_every_call(recorder: Recorder) -> None:
    """Stopping at every call gives the same events as stopping at some."""
    words: Words = [BUILD / "cgpu-probe", "--dev", recorder.mount, "alloc=64K", "xfer", "dup", "free=all"]
    seen = []
    for options in ((), ("--every-call",)):
        assert recorder.run(words, *options).returncode == 0
        seen.append(
            [(event.call, event.file, event.fd, event.status) for event in load(recorder.file).events]
        )
    assert seen[0] == seen[1]


def test_mappings(tools: Path, tmp_path: Path) -> None:
    """A mapping keeps the file until it ends; its place is never told."""
    (tmp_path / "nvidiactl").write_bytes(bytes(8192))
    recorder = Recorder(tmp_path, tmp_path / "trace.jsonl")
    trace = recorder.python(
        OPEN + "import mmap\narea = mmap.mmap(ctl, 8192)\nmore = mmap.mmap(ctl, 4096, offset=4096)\n"
        "os.close(ctl)\narea.close()\nos._exit(0)"
    )
    first, second = [event for event in calls(trace, "mmap") if event.rest["prot"] == 3][:2]
    assert (first.rest["length"], "offset" in first.rest, second.rest["offset"]) == (8192, False, True)
    ends = [(event.rest["map"], event.by, event.last) for event in calls(trace, "munmap")]
    assert ends == [(first.rest["map"], "munmap", False), (second.rest["map"], "exit", True)]
    assert not any(event.last for event in calls(trace, "close"))


def test_unprivileged(tools: Path, recorder: Recorder) -> None:
    """Somebody without rights records programs of their own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        for name in ("cgpu-recorder", "cgpu-probe"):
            shutil.copy2(BUILD / name, folder)
        mount = Path(folder, "node")
        nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        words: Words = [*nobody, f"{folder}/cgpu-recorder", "-o", f"{folder}/trace", "--dev", mount, "--"]
        mount.mkdir()
        (mount / "nvidiactl").write_bytes(b"")
        script = f"exec 3<>{mount}/nvidiactl; exec 4>&3"
        (mount / "nvidiactl").chmod(0o666)
        must([*words, "/bin/bash", "-c", script])
        trace = load(Path(folder, "trace"))
    assert [event.call for event in trace.events if event.file][:2] == ["open", "dup"]


def test_exec_of_a_thread(recorder: Recorder) -> None:
    """A thread that executes a program goes on under the process's number."""
    trace = recorder.python(
        OPEN + "import threading, time\nos.set_inheritable(ctl, True)\n"
        "again = [sys.executable, '-I', '-c', " + repr(IOCTL) + " + 'ask(%d)' % ctl]\n"
        "threading.Thread(target=os.execv, args=(sys.executable, again)).start()\ntime.sleep(60)"
    )
    (call,) = [event for event in trace.events if event.is_driver_call]
    assert (call.pid, call.tid, call.file) == (1, 1, 1)
    assert [event.status for event in calls(trace, "exit")] == [0]
