# SPDX-License-Identifier: Apache-2.0
"""The descriptor store and the notify protocol, both ends."""

from __future__ import annotations

import os
import select
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.kmod.daemon.listeners.listener import SERIAL_BITS, store_name
from cgpu.kmod.daemon.store import fd_store, notify_socket
from cgpu.kmod.daemon.store.fd_store import FdStore, parse_fields
from cgpu.kmod.daemon.store.keeper import place_fds, worker_environment
from cgpu.kmod.daemon.store.notify_socket import NotifySocket, inherited


@pytest.fixture
def server(base: Path) -> Iterator[socket.socket]:
    with fd_store.bind(str(base / "notify.sock")) as sock:
        yield sock


def test_descriptors_come_through(base: Path, server: socket.socket) -> None:
    """A descriptor that is stored arrives with its name, and the kernel's word on who sent it."""
    reader, writer = os.pipe()
    notify = NotifySocket(str(base / "notify.sock"))
    notify.store("listener-1-2-3", writer)
    os.close(writer)
    message = fd_store.receive(server)
    assert message is not None
    assert message.pid == os.getpid()
    assert message.uid == os.getuid()
    assert message.fields == {"FDSTORE": "1", "FDNAME": "listener-1-2-3"}
    os.write(message.fds[0], b"x")
    assert os.read(reader, 1) == b"x"
    notify.store("files", reader, watched=False)
    unwatched = fd_store.receive(server)
    assert unwatched is not None
    assert unwatched.fields == {"FDSTORE": "1", "FDNAME": "files", "FDPOLL": "0"}
    for fd in (reader, *message.fds, *unwatched.fds):
        os.close(fd)
    notify.discard("listener-1-2-3")
    removal = fd_store.receive(server)
    assert removal is not None
    assert removal.fields == {"FDSTOREREMOVE": "1", "FDNAME": "listener-1-2-3"}
    assert fd_store.receive(server) is None


def test_cut_message_says_nothing(base: Path, server: socket.socket) -> None:
    """A message that is too long has no fields: its end could have changed its meaning."""
    NotifySocket(str(base / "notify.sock")).send("READY=1\n" + "X" * fd_store.MAX_MESSAGE)
    message = fd_store.receive(server)
    assert message is not None
    assert message.fields == {}


def test_nobody_listens() -> None:
    """Without an address nothing is sent; a dead manager does not stop a status line."""
    NotifySocket(None).send("READY=1")
    NotifySocket("/nowhere/notify.sock").status("all is well")


@given(st.binary(max_size=400))
def test_fields_of_anything(data: bytes) -> None:
    """Any datagram is either fields or nothing."""
    for key, value in parse_fields(data).items():
        assert key
        assert "\n" not in key + value


def test_store_drops_what_hung_up() -> None:
    """A descriptor whose other end is gone leaves the store; a memory file stays, and an unwatched one."""
    store = FdStore()
    left, right = socket.socketpair()
    assert store.add("files", (os.dup(left.fileno()),), watched=False)
    assert store.add("listener-1-1-1", (os.dup(left.fileno()),))
    assert store.add("state", (os.memfd_create("state"),))
    store.drop_hung_up()
    assert [name for name, _ in store.entries()] == ["files", "listener-1-1-1", "state"]
    right.close()
    store.drop_hung_up()
    assert [name for name, _ in store.entries()] == ["files", "state"]
    store.close()
    assert len(store) == 0
    left.close()


class Interrupted:
    """Polls, and was interrupted each time: the kernel says EPOLLERR of a listener then."""

    def __init__(self, fds: list[int]) -> None:
        """fds: descriptors that it is asked about."""
        self._fds = fds

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        return [(fd, select.EPOLLERR) for fd in self._fds]

    def unregister(self, fd: int) -> None:
        """Nothing is registered."""


def test_store_keeps_what_was_not_asked_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is gone when the descriptor itself is asked drops nothing; one that stays does."""
    store = FdStore()
    left, right = socket.socketpair()
    reader, writer = os.pipe()
    os.close(reader)
    assert store.add("listener-1-1-1", (left.detach(),), watched=False)
    assert store.add("failed", (writer,), watched=False)
    monkeypatch.setattr(store, "_poll", Interrupted([fd for _, fd in store.entries()]))
    store.drop_hung_up()
    assert [name for name, _ in store.entries()] == ["listener-1-1-1"]
    store.remove("listener-1-1-1")
    right.close()


def test_store_refuses_bad_names() -> None:
    """A name that could not be handed on is refused, and its descriptor closed."""
    store = FdStore()
    for name in ("", "a:b", "a b", "x" * 256, "tab\t"):
        fd = os.open("/dev/null", os.O_RDONLY)
        assert not store.add(name, (fd,))
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    store.close()


def test_store_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full store takes no more."""
    monkeypatch.setattr(fd_store, "MAX_STORED", 2)
    store = FdStore()
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
    assert [store.add("state", (fd,)) for fd in fds] == [True, True, False]
    store.remove("state")
    assert len(store) == 0
    store.close()


def test_malformed_inheritance_is_none() -> None:
    """Descriptors are taken up only when number, names and process id fit."""
    assert inherited({}, 77) == []
    for pid, number in (("1", "1"), ("77", "x"), ("77", "2"), ("77", "-1"), ("", "1")):
        environment = {"LISTEN_PID": pid, "LISTEN_FDS": number, "LISTEN_FDNAMES": "state"}
        assert inherited(environment, 77) == []


def test_descriptors_reach_a_child(base: Path) -> None:
    """The keeper's descriptors arrive at 3 and on, in order, under the right names."""
    fds = []
    for name in ("one", "two", "three"):
        (base / name).write_text(name)
        fds.append(os.open(base / name, os.O_RDONLY))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = b"failed"
        try:
            high = os.dup2(writer, 900)
            # In reverse: numbers 3 and on are both source and target.
            place_fds(list(reversed(fds)))
            names = inherited(worker_environment(os.getpid(), "x", ["three", "two", "one"]), os.getpid())
            text = b" ".join(name.encode() + b"=" + os.read(fd, 9) for name, fd in names)
            os.write(high, text)
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 99) == b"three=three two=two one=one"
    for fd in (*fds, reader):
        os.close(fd)
    assert notify_socket.FIRST_FD == 3


def test_full_store_starts_a_daemon() -> None:
    """A program can be begun with as many listeners as the store takes: the kernel bounds each variable."""
    containers, registrations, serial = 512, (1 << 32) - 1, 1 << SERIAL_BITS
    names = [store_name(containers - 1, registrations, serial)] * fd_store.MAX_STORED
    environment = worker_environment(os.getpid(), "x", names)
    assert subprocess.run(["/bin/true"], env=environment, check=False).returncode == 0
