# SPDX-License-Identifier: Apache-2.0
"""The wrapper's server, stopped, stuck or killed at any moment: each start is done once."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cgpu.runtime_config.oci_runtime.server import READY
from tests.integration.commands import eventually
from tests.runtime_config.oci_runtime.served import (
    LEFT,
    Served,
    assert_lets_go,
    build_launcher,
    children,
    state,
    workers,
)
from tests.runtime_config.oci_runtime.wrapper import FIRST
from tests.runtime_config.support import ASKING, spec

SLICED = spec(*ASKING, FIRST)
# Has a worker stop itself before or after a function, where a file says so.
STOPS = """
import signal
found, _, name = {name!r}.rpartition(".")
owner = eval(found, vars(server)) if found else server
inner = getattr(owner, name)
def stop():
    try:
        os.unlink({told!r})
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)
def outer(*words, **more):
    try:
        {after} or stop()
        return inner(*words, **more)
    finally:
        {after} and stop()
setattr(owner, name, outer)
"""


@pytest.fixture(scope="session")
def hasty_launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a launcher that waits a second for an answer."""
    return build_launcher(tmp_path_factory.mktemp("hasty"), CGPU_ANSWER_TIMEOUT_S=1)


@pytest.fixture
def hasty(hasty_launcher: Path, tmp_path: Path) -> Served:
    """Return such a launcher, and no server yet."""
    return Served(tmp_path / "node", program=hasty_launcher).build()


def assert_started_once(node: Served) -> None:
    """Start the container, which is edited and given to the low-level runtime, and nothing else is left."""
    (node.base / "calls").unlink(missing_ok=True)
    result = node.create()
    assert (result.status, result.errors) == (0, "")
    assert node.started()[2:] == ["--log-format", "json", "create", "--bundle", str(node.place), "c1"]
    assert len(node.edited()["hooks"]["prestart"]) == 1
    assert [path.name for path in node.place.iterdir()] == ["config.json"]


MOMENTS = [
    ("known_launchers", False),  # a start was accepted
    ("_check_caller", True),
    ("_prepare", False),  # READY was said
    ("socket.recv_fds", True),  # the call was received
    ("_is_gone", True),
    ("Bundle.read", False),
    ("main.prepare", False),
    ("os.memfd_create", True),
    ("socket.send_fds", False),
    ("socket.send_fds", True),
]


def stopped_workers(server: int) -> list[int]:
    return [worker for worker in workers(server) if state(worker) == "T"]


@pytest.mark.parametrize(("name", "after"), MOMENTS)
def test_a_worker_that_stops(hasty: Served, name: str, after: bool) -> None:
    """A start is done where its worker stops, wherever that is, and the worker changes nothing later."""
    told = hasty.base / "stop"
    changes = STOPS.format(name=name, told=str(told), after=after)
    with hasty.server(changes=changes) as server:
        told.touch()
        assert_started_once(hasty)
        # The start may be done before the worker that has sent it stops.
        eventually(lambda: len(stopped_workers(server.pid)) == 1, "one worker stops")
        stopped = stopped_workers(server.pid)
        edited = hasty.config.stat()
        os.kill(stopped[0], signal.SIGCONT)
        assert_lets_go(stopped[0])
        assert (hasty.config.stat(), os.listdir(hasty.place)) == (edited, ["config.json"])
        assert_started_once(hasty)


def test_all_workers_stop(hasty: Served) -> None:
    """A start that no worker accepts is done, and by no other later."""
    with hasty.server() as server:
        stopped = workers(server.pid)
        for worker in stopped:
            os.kill(worker, signal.SIGSTOP)
        assert_started_once(hasty)
        edited = hasty.config.stat()
        for worker in stopped:
            os.kill(worker, signal.SIGCONT)
        eventually(lambda: all(state(worker) == "S" for worker in stopped), "they wait for the next start")
        assert hasty.config.stat() == edited


def test_a_server_that_stops(bare: Served) -> None:
    """Workers serve while their server is stopped; it replaces them when it goes on."""
    with bare.server() as server:
        found = workers(server.pid)
        os.kill(server.pid, signal.SIGSTOP)
        assert_started_once(bare)
        for worker in found:
            os.kill(worker, signal.SIGKILL)
        assert bare.create() == LEFT
        os.kill(server.pid, signal.SIGCONT)
        eventually(lambda: bare.create().status == 0, "there are workers again")


@contextmanager
def answering(node: Served, answer: bytes | None, descriptors: int, ready: bytes = READY) -> Iterator[None]:
    """Stand in for a server that says it is ready, and then something else; None: nothing, and waits."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, (node.config).open("rb") as file:
            connection.send(ready)
            asked = connection.recv(1 << 16)
            if asked and answer is not None:
                socket.send_fds(connection, [answer], [file.fileno()] * descriptors)
            connection.recv(1)

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(node.socket))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(timeout=240)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("answer", "descriptors"),
    [
        (None, 0),
        (b"runc", 0),
        (b"/" + b"x" * 5000, 0),
        (b"/bin/false", 1),
        (b"/bin/false", 2),
        (b"/bin/false", 3),  # of which the second is no folder
        (b"/bin/false", 4),
        (b"/bin/false", 50),
    ],
)
def test_strange_answers(hasty: Served, answer: bytes | None, descriptors: int) -> None:
    """A server without an answer, or with a wrong one, is given up on."""
    with answering(hasty, answer, descriptors):
        assert_started_once(hasty)


@pytest.mark.parametrize("ready", [b"ready", b"ready 2", b"ready 33", b""])
def test_another_protocol(hasty: Served, ready: bytes) -> None:
    """A server of another version, whose answer would mean something else, is asked nothing."""
    with answering(hasty, b"/bin/false", 0, ready):
        assert_started_once(hasty)


def test_a_server_that_is_killed(bare: Served) -> None:
    """Its workers end with it, and take no connection any more."""
    with bare.server() as server:
        found = workers(server.pid)
        server.kill()
        server.wait()
        eventually(lambda: all(state(worker) == "Z" for worker in found), "they are gone")
        assert bare.create() == LEFT


@pytest.mark.parametrize("delay", [0, 0.0005, 0.001, 0.002, 0.01])
def test_ends_at_any_moment(bare: Served, delay: float) -> None:
    """A server that is ended while it starts or replaces workers ends as always, and leaves none."""
    with bare.server() as server:
        all_workers = workers(server.pid)
        for worker in all_workers[:2]:
            os.kill(worker, signal.SIGKILL)
        time.sleep(delay)
        os.kill(server.pid, signal.SIGSTOP)
        all_workers += children(server.pid)
        os.kill(server.pid, signal.SIGTERM)
        os.kill(server.pid, signal.SIGCONT)
        assert server.wait(timeout=240) == 0
        eventually(lambda: all(state(worker) == "Z" for worker in all_workers), "they end")
