# SPDX-License-Identifier: Apache-2.0
"""The socket for seccomp listeners: how it reads what runtimes send, and what becomes of that."""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import unix_socket
from cgpu.errors import CgpuError
from cgpu.kmod.daemon.engine import Container, Engine
from cgpu.kmod.daemon.listeners import listener as listener_module
from cgpu.kmod.daemon.listeners.listener import Listeners, ListenerSocket, store_name
from cgpu.kmod.daemon.store.notify_socket import NotifySocket

ID = "a" * 64
Send = Callable[..., socket.socket]


def message(container_id: Any = ID, fds: Any = ("seccompFd",), pid: int = 7, **more: Any) -> bytes:
    """Return a process state as runtimes send it."""
    state = {"ociVersion": "1.0.2", "id": container_id, "pid": 7, "status": "creating", "bundle": "/b"}
    document = {"ociVersion": "1.0.2", "fds": fds, "pid": pid, "state": {**state, **more}}
    return json.dumps(document).encode()


class FakeEngine:
    """Knows one container."""

    def __init__(self) -> None:
        self.attached: list[tuple[int, int, int]] = []
        self.served = True
        self.filtered: bool | OSError = True
        self.inspected: list[int] = []
        self.ended: list[int] = []
        self.shared = False
        self.cgroup = "/c1"
        self.refused: OSError | None = None

    def find(self, container_id: str) -> Container | None:
        return Container(ID, self.cgroup, 7, 4, 99) if container_id == ID else None

    def is_filtered(self, pid: int, container: Container) -> bool:
        assert container.id == ID
        self.inspected.append(pid)
        if isinstance(self.filtered, OSError):
            raise self.filtered
        return self.filtered

    def end_process(self, pid: int, container: Container) -> None:
        assert container.id == ID
        if self.refused is not None:
            raise self.refused
        self.ended.append(pid)

    def serves(self, serial: int) -> bool:
        return self.served

    def attach(self, fd: int, slot: int, generation: int, serial: int, *, kept: bool = False) -> None:
        os.close(fd)
        self.attached.append((slot, generation, serial))


def listeners_of(engine: FakeEngine) -> Listeners:
    """Return the listeners of an engine that has of the real one what they use."""
    return Listeners(cast(Engine, engine), NotifySocket(None), lambda: engine.shared)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def sock(base: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[ListenerSocket]:
    """A listener socket that takes /dev/null for a listener."""
    monkeypatch.setattr(listener_module, "ANON_LINK", "/dev/null")
    listeners = listeners_of(engine)
    made = ListenerSocket(str(base / "seccomp.sock"), listeners, unix_socket.listen(str(base / "bound")))
    yield made
    made.close()


@pytest.fixture
def send(sock: ListenerSocket, base: Path) -> Iterator[Send]:
    """Return what sends parts of a message, descriptors with the first, as a runtime does."""
    clients: list[socket.socket] = []

    def sends(*parts: bytes, fds: int = 1) -> socket.socket:
        null = os.open("/dev/null", os.O_RDONLY)
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        clients.append(client)
        client.connect(str(base / "seccomp.sock"))
        sock.handle()
        for number, part in enumerate(parts):
            socket.send_fds(client, [part], [null] * fds if number == 0 else [])
            sock.handle()
        os.close(null)
        client.shutdown(socket.SHUT_WR)
        for _ in range(8):  # it reads at most so much at a time
            sock.handle()
        sock.listeners.filters.await_inspections()
        return client

    yield sends
    for client in clients:
        client.close()


def test_every_process_of_a_runtime_is_looked_at(
    send: Send, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """Each process of a runtime is inspected once its listener is attached; errors are logged."""
    send(message())
    engine.filtered = False
    send(message())
    (said,) = (record.message for record in caplog.records if record.levelname == "ERROR")
    assert said.startswith(
        f"container {ID}: its first process does not have the engine's filter, and was ended"
    )
    send(message(pid=8))
    said = caplog.records[-1].message
    assert f"container {ID}: process 8, which was started in it, does not have the engine's filter" in said
    assert engine.inspected == [7, 7, 8]
    assert len(engine.attached) == 3
    send(message().replace(b'"pid": 7', b'"pid": 0'))
    assert engine.inspected == [7, 7, 8]


def test_socket_of_the_program_before(sock: ListenerSocket, base: Path, engine: FakeEngine) -> None:
    """A runtime that has connected, and ended, while another program took the daemon's place is heard."""
    before = unix_socket.listen(str(base / "before"))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(base / "before"))
        socket.send_fds(client, [message()], [os.open("/dev/null", os.O_RDONLY)])
    link = base / "after.sock"
    after = ListenerSocket(str(link), sock.listeners, unix_socket.listen(str(base / "after")), before)
    for _ in range(8):
        after.handle()
    sock.listeners.filters.await_inspections()
    assert len(engine.attached) == 1
    assert os.readlink(link) == str(base / "after")
    after.close()
    assert not os.path.lexists(link)


def test_filters_that_cannot_be_looked_at(
    send: Send, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that has ended is no matter; that cgpud cannot look is said once, other reasons each time."""
    for number in (errno.ESRCH, errno.EACCES, errno.EACCES, errno.EPERM, errno.EPERM):
        engine.filtered = OSError(number, os.strerror(number))
        send(message())
    said = [
        record.message.partition("looked at ")[2]
        for record in caplog.records
        if record.levelname == "WARNING"
    ]
    assert said == ["(cgpud has a filter itself)", *["(Operation not permitted)"] * 2]
    assert engine.ended == []


def test_shared_nodes_run_nothing_that_cannot_be_looked_at(
    send: Send, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """With shared_node such a process is ended; one that is gone, before or meanwhile, is not said to be."""
    engine.shared = True
    for number in (errno.ESRCH, errno.EACCES, errno.EACCES, errno.EPERM):
        engine.filtered = OSError(number, os.strerror(number))
        send(message())
    assert engine.ended == [7, 7, 7]
    engine.refused = OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    send(message())
    said = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert said[0] == (
        f"container {ID}: its first process was ended (shared_node: true): its filter cannot be looked at "
        "(cgpud has a filter itself)"
    )
    assert len(said) == 3


def test_listeners_beyond_a_share(
    send: Send, engine: FakeEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that has its share of listeners gets no more: the next is closed, and the log says why."""

    def refuse(fd: int, *_: int, **__: bool) -> None:
        os.close(fd)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(engine, "attach", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with send(message()):
        pass
    assert len(os.listdir("/proc/self/fd")) == before
    assert f"container {ID}: it has as many seccomp listeners as one container may" in caplog.text
    assert "; its first process was ended" in caplog.text
    assert (engine.ended, engine.inspected) == ([7], [])


def test_of_a_refused_listener_the_process_is_ended(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is ended while its listener is still open; one that may not be the container's is not."""
    listeners = listeners_of(engine)
    hung_up: list[bool] = []
    read, write = os.pipe()

    def end(_: int, __: Container) -> None:
        hung_up.append(bool(select.select([read], [], [], 0)[0]))

    monkeypatch.setattr(engine, "end_process", end)
    with pytest.raises(
        CgpuError, match=r"no seccomp listener; process 8, which was started in it, was ended"
    ):
        listeners.accept(listener_module.ProcessState(ID, 0, 8), write)
    assert hung_up == [False]
    assert select.select([read], [], [], 0)[0]
    os.close(read)
    engine.cgroup = "/"
    for state in (
        listener_module.ProcessState(ID, 0, 8),
        listener_module.ProcessState(ID, 0),
        listener_module.ProcessState("b" * 64, 0, os.getpid()),
    ):
        with pytest.raises(CgpuError, match=r"(no seccomp listener|is closed)$"):
            listeners.accept(state, os.open("/dev/null", os.O_RDONLY))
    assert hung_up == [False]


def test_message_in_parts(send: Send, engine: FakeEngine) -> None:
    """The listener of a registered container is attached to it, though its message comes in parts."""
    whole = message(annotations={"long": "x" * 100000})
    send(whole[:10], whole[10:60000], whole[60000:])
    assert [entry[:2] for entry in engine.attached] == [(4, 99)]


@pytest.mark.parametrize(
    ("text", "fds"),
    [
        (message("b" * 64), 1),
        (message(fds=["seccompFd", "seccompFd"]), 2),
        (message(), 0),
        (message(), 2),
        (message(), 9),
        (b"[]", 1),
        (b"\xff\xfe", 1),
        (b"[" * 100000, 1),
        (b"", 1),
    ],
)
def test_refused(send: Send, engine: FakeEngine, text: bytes, fds: int) -> None:
    """A message without a registered container and exactly one listener is closed."""
    before = len(os.listdir("/proc/self/fd"))
    with send(text, fds=fds) as client:
        client.settimeout(5)
        with_nothing = client.recv(1)
    assert with_nothing == b""
    assert engine.attached == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_slow_sender_is_dropped(
    sock: ListenerSocket, base: Path, monkeypatch: pytest.MonkeyPatch, engine: FakeEngine
) -> None:
    """A connection whose message never comes whole is closed."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(base / "seccomp.sock"))
    monkeypatch.setattr(listener_module, "WAIT_S", -1.0)
    sock.handle()
    sock.expire()
    assert client.recv(1) == b""
    client.close()


def test_store_names_come_back(engine: FakeEngine) -> None:
    """A stored name brings a listener back; any other name is closed, and one whose end was not told goes."""
    listeners = listeners_of(engine)
    names = (store_name(4, 99, 12345), store_name(4, 99, 12346))
    for name in (*names, "listener-x", "other", "listener-4-99"):
        listeners.restore(name, os.open("/dev/null", os.O_RDONLY))
    assert engine.attached == [(4, 99, 12345), (4, 99, 12346)]
    listeners.drop_gone()
    assert len(listeners) == 2
    engine.served = False
    listeners.drop_gone()
    assert len(listeners) == 0
    listeners.gone(12345)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_values | st.fixed_dictionaries({"fds": json_values, "state": json_values}), st.integers(0, 8))
def test_any_document(document: Any, descriptors: int) -> None:
    """Any document either names a container and a descriptor that came, or is refused."""
    try:
        state = listener_module.parse(json.dumps(document).encode(), descriptors)
    except CgpuError:
        return
    assert listener_module.ID.fullmatch(state.container_id)
    assert 0 <= state.listener < descriptors


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are refused or understood, and never more than that."""
    assert listener_module.complete(data) in (True, False)
    with pytest.raises(CgpuError):
        listener_module.parse(data, 0)


def test_without_a_group_only_the_first_process_is_looked_at(
    send: Send, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a sign of a number's owner, no other process is inspected or ended; that is logged."""
    engine.cgroup, engine.shared, engine.filtered = "/", True, False
    send(message(pid=8))
    assert (engine.inspected, engine.ended) == ([], [])
    assert "its filter cannot be looked at (its cgroup is not its own)" in caplog.records[-1].message
    send(message())
    assert engine.inspected == [7]


def test_a_container_has_few_looks_at_once(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Processes beyond four count as not inspected; other containers have inspections of their own."""
    release = threading.Event()
    monkeypatch.setattr(engine, "is_filtered", lambda *_: release.wait(20))
    filters = listeners_of(engine).filters
    for pid in range(100, 105):
        filters.inspect(Container("one", "/one", 7, 4, 99), pid)
    filters.inspect(Container("two", "/two", 8, 5, 99), 200)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    release.set()
    assert said == ["container one: its filter cannot be looked at (Resource temporarily unavailable)"]
    filters.await_inspections()
