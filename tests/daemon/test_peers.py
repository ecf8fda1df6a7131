# SPDX-License-Identifier: Apache-2.0
"""Processes that may ask on a socket, by its other end. Containers ask in tests/attacks/test_sockets.py."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu import peers, unix_socket
from cgpu.kmod.daemon.store import fd_store, keeper
from cgpu.kmod.daemon.store.notify_socket import NotifySocket
from cgpu.kmod.daemon.tree.callers import check_writer

ASK = """
import os, socket, sys
asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""
UNKNOWN = 9999  # a socket option that no kernel knows, as one before Linux 6.5 knows no pidfds
Asking = subprocess.Popen[bytes]
Ask = Callable[[], tuple[socket.socket, Asking]]


@pytest.fixture(params=["", "before 6.5"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel as it is, and one that gives no pidfd with a connection or a message."""
    if request.param:
        monkeypatch.setattr(peers, "SO_PEERPIDFD", UNKNOWN)
        monkeypatch.setattr(unix_socket, "SO_PASSPIDFD", UNKNOWN)
    return str(request.param)


@pytest.fixture
def ask(base: Path) -> Iterator[Ask]:
    """Return what has a process connect; gives our end, and the process."""
    listening = unix_socket.listen(str(base / "socket"))
    listening.setblocking(True)
    pipe = subprocess.PIPE

    def connect() -> tuple[socket.socket, Asking]:
        command = [sys.executable, "-c", ASK, str(base / "socket")]
        asking = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        assert asking.stdout is not None
        asking.stdout.readline()
        return listening.accept()[0], asking

    with listening:
        yield connect


def end(asking: Asking) -> None:
    asking.kill()
    asking.communicate()


@pytest.mark.parametrize("inner", [peers.check_namespaces, check_writer])
def test_process_that_ends(kernel: str, ask: Ask, inner: peers.Rule) -> None:
    """Root of the host may ask, but not once it has ended: before the look, in its midst, as a zombie."""
    for moment in ("never", "before", "in its midst", "not waited for"):
        before = os.listdir("/proc/self/fd")
        connection, asking = ask()
        with connection:
            if moment == "before":
                end(asking)
            if moment == "not waited for":
                asking.kill()
                os.waitid(os.P_PID, asking.pid, os.WEXITED | os.WNOWAIT)

            def rule(pid: int, asking: Asking = asking, moment: str = moment) -> None:
                inner(pid)
                if moment == "in its midst":
                    end(asking)

            if moment == "never":
                peers.check_peer(connection, rule)
            else:
                with pytest.raises(peers.EndedError):
                    peers.check_peer(connection, rule)
        end(asking)
        assert os.listdir("/proc/self/fd") == before


def test_sender_of_an_order(kernel: str, base: Path) -> None:
    """The sender of an order is known by its pidfd, or else by its pipe; no descriptor is left over."""
    with fd_store.bind(str(base / "keeper")) as sock:
        before = os.listdir("/proc/self/fd")
        reader, writer = os.pipe()
        NotifySocket(str(base / "keeper")).send("CGPU_STOP=1", [writer])
        os.close(writer)
        message = fd_store.receive(sock)
        assert message is not None
        assert (message.pidfd < 0) is bool(kernel)
        keeper.check_sender(message)
        os.close(reader)
        if kernel:
            # The process that has the number now does not have the pipe open.
            with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other, pytest.raises(peers.EndedError):
                peers.check(other.pid, 0, rule=lambda pid: peers.check_has_open(pid, message.fds[0]))
        os.close(message.fds[0])
        assert os.listdir("/proc/self/fd") == before
