# SPDX-License-Identifier: Apache-2.0
"""A process whose listener is refused gets none of its own, by which it would answer its own driver calls."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, SLICED, Daemon, Sliced, built, long_id
from tests.daemon.supervise.test_unfiltered import contained, group
from tests.integration.commands import eventually

__all__ = ["group"]

SHARE = 256
# Its listener counts once for each time that it is sent.
SEND = f"""
import json, socket, sys
sys.path.insert(0, {str(SLICED.parent)!r})
import sliced
path, container = sys.argv[1:]
message = json.dumps(dict(json.loads(sliced.state(container)), pid=0)).encode()
fd = sliced.install()
for _ in range({SHARE}):
    with sliced.connect(path) as runtime:
        socket.send_fds(runtime, [message], [fd])
sys.stdin.readline()
"""


@contextmanager
def share_used(daemon: Daemon, sliced: Sliced) -> Iterator[None]:
    """Have a container with all the listeners that it may have."""
    command = [sys.executable, "-c", SEND, str(daemon.run / "seccomp.sock"), sliced.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as sender:
        eventually(lambda: daemon.status()["engine"]["listeners"] == SHARE, "the listeners did not come")
        yield
        sender.communicate(b"\n")


def relistening(daemon: Daemon, sliced: Sliced) -> Sliced:
    return daemon.join(sliced, str(built("relisten")))


def await_line(daemon: Daemon, words: str) -> None:
    """Wait until the daemon has said something: it ends a process before it says so."""
    eventually(lambda: words in daemon.log(), f"the log says: {words}", instead=daemon.log)


def test_it_is_refused(make_daemon: MakeDaemon) -> None:
    """The filter refuses a second listener, whether the first one is served or closed."""
    daemon = make_daemon()
    sliced = daemon.slice(1, f"gpu=0:{1000 * MIB}", "alloc=64M", "hold", until="alloc")
    served = relistening(daemon, sliced)
    assert served.finish("\n") == f"call {errno.EBADF}\nlistener {errno.EBUSY}\n"
    with share_used(daemon, sliced):
        closed = relistening(daemon, sliced)
        assert closed.finish("\n") == f"call {errno.ENOSYS}\nlistener {errno.EBUSY}\n"
    sliced.finish("\n")


def test_it_is_ended(make_daemon: MakeDaemon, group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process beyond its container's share of listeners does not go on, whatever its filter allows."""
    daemon, sliced = contained(make_daemon, group)
    monkeypatch.setenv("SLICED_LISTENS", "1")
    with share_used(daemon, sliced):
        closed = relistening(daemon, sliced)
        assert "listener 0" not in closed.finish("\n")
    assert closed.process.returncode == -signal.SIGKILL
    await_line(daemon, f"left behind in it; process {closed.process.pid}, which was started in it, was ended")
    assert sliced.process.poll() is None
    sliced.finish("\n")


def test_without_a_registration(
    make_daemon: MakeDaemon, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So of a container that is not registered, by the cgroup that is named after it."""
    daemon, sliced = contained(make_daemon, group)
    monkeypatch.setenv("SLICED_LISTENS", "1")
    named = group / f"docker-{long_id(9)}.scope"
    named.mkdir()

    def place(other: Sliced) -> None:
        (named / "cgroup.procs").write_text(str(other.process.pid))

    monkeypatch.setattr(daemon, "place", place)
    closed = relistening(daemon, Sliced(sliced.process, long_id(9)))
    assert "listener 0" not in closed.finish("\n")
    assert closed.process.returncode == -signal.SIGKILL
    await_line(daemon, f"its listener is closed; process {closed.process.pid}, which")
    sliced.finish("\n")
    named.rmdir()
