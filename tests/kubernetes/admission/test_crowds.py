# SPDX-License-Identifier: Apache-2.0
"""Reviews of many senders, which go, wait or are slow: the webhook's buffers are bounded."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from cgpu.kubernetes.admission import review, server
from cgpu.kubernetes.admission.listener import Connection, Listener
from cgpu.kubernetes.admission.server import Webhook
from tests.kubernetes.admission.test_review import POD, FewTemplates, Log, client_of, request, serving

CROWD, OTHER = "192.0.2.1", "192.0.2.2"


class Judged:
    """Stand-in for the judging of reviews: it counts them, and waits until they may be answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.may_end = threading.Event()
        monkeypatch.setattr(review, "answer", self)

    def __call__(self, _body: bytes, _judge: object, _say: object) -> dict[str, Any]:
        self.number += 1
        assert self.may_end.wait(20)
        return {}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Judge one small review at a time."""
    monkeypatch.setattr(server, "AT_ONCE", 1)
    return Judged(monkeypatch)


def send_review(url: str, folder: Path) -> ssl.SSLSocket:
    trusted = ssl.create_default_context(cafile=folder / "tls.crt")
    connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
    sender = trusted.wrap_socket(connection, server_hostname="127.0.0.1")
    body = request(POD)
    sender.sendall(b"POST /pods HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    return sender


def test_reviews_of_who_has_gone_are_left(tmp_path: Path, judged: Judged) -> None:
    """A review whose sender has gone while it waited is not judged, and its place is free."""
    with serving(tmp_path, FewTemplates()) as url:
        senders = [send_review(url, tmp_path) for _ in range(6)]
        time.sleep(0.5)
        for sender in senders:
            sender.close()
        time.sleep(0.5)
        judged.may_end.set()
        with client_of(url, tmp_path) as client:
            assert client.post("/pods", content=request(POD)).status_code == 200
    assert judged.number == 2


def test_an_ended_connection_is_not_read() -> None:
    """Bytes that a sender sent before its connection was ended make no review."""

    async def read() -> tuple[bytes, int]:
        with Listener("127.0.0.1", 0) as listener, socket.socket() as sender:
            listener.listen()
            sender.connect(listener.getsockname())
            sender.sendall(b"POST")
            connection = cast("Connection", listener.accept()[0])
            connection.end()
            with connection:
                return connection.recv(4), connection.recv_into(bytearray(4))

    assert asyncio.run(read()) == (b"", 0)


class Sender:
    """One that sends a body in parts to an application, and waits for the answer."""

    def __init__(self, peer: str, *parts: bytes, pause: float = 0) -> None:
        self.status = 0
        self._peer = peer
        self._parts = list(parts)
        self._length = sum(map(len, parts))
        self._pause = pause

    async def send(self, webhook: Webhook) -> int:
        """Return the answer's status."""
        headers = [(b"content-length", str(self._length).encode())]
        scope = {"type": "http", "method": "POST", "path": "/pods", "headers": headers}
        await webhook({**scope, "client": (self._peer, 1)}, self._receive, self._keep)
        return self.status

    async def _receive(self) -> dict[str, Any]:
        await asyncio.sleep(self._pause if self._parts else 60)
        return {"type": "http.request", "body": self._parts.pop(0), "more_body": bool(self._parts)}

    async def _keep(self, message: Any) -> None:
        self.status = message.get("status", self.status)


def application() -> Webhook:
    return Webhook(cast("Any", FewTemplates()), Log())


def test_waiting_reviews_are_bounded(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, the oldest review of the address that has most is sent away; others wait on."""
    monkeypatch.setattr(server, "WAITING", 4)

    async def crowd() -> list[int]:
        webhook = application()
        senders = [Sender(CROWD, b"1") for _ in range(4)] + [Sender(OTHER, b"1")]
        senders += [Sender(CROWD, b"1") for _ in range(4)]
        answers = [asyncio.create_task(sender.send(webhook)) for sender in senders]
        await asyncio.sleep(0.3)
        judged.may_end.set()
        return await asyncio.gather(*answers)

    assert asyncio.run(crowd()) == [200, 503, 503, 503, 200, 503, 200, 200, 200]


def test_nobody_waits_for_ever(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """A review that the API server awaits no more is given up."""
    monkeypatch.setattr(server, "BODY_S", 0.2)

    async def wait() -> list[int]:
        webhook = application()
        first, second = (asyncio.create_task(Sender(CROWD, b"1").send(webhook)) for _ in range(2))
        given_up = await second
        judged.may_end.set()
        return [await first, given_up]

    assert asyncio.run(wait()) == [200, 503]


LARGE_PARTS = (b" " * server.LARGE, b"1")


def test_slow_senders_hold_up_no_large_review(judged: Judged) -> None:
    """Large bodies are read at once, though one at a time is judged."""
    judged.may_end.set()

    async def crowd() -> int:
        webhook = application()
        slow = [asyncio.create_task(Sender(CROWD, *LARGE_PARTS, pause=60).send(webhook)) for _ in range(15)]
        await asyncio.sleep(0.1)
        status = await asyncio.wait_for(Sender(OTHER, *LARGE_PARTS).send(webhook), 1)
        for sender in slow:
            sender.cancel()
        return status

    assert asyncio.run(crowd()) == 200


def test_large_bodies_go_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body takes many times its length in memory when it is read; small ones wait for none."""
    now, most = {True: 0, False: 0}, {True: 0, False: 0}
    lock = threading.Lock()

    def answer(body: bytes, _judge: object, _say: object) -> dict[str, Any]:
        large = len(body) > server.LARGE
        with lock:
            now[large] += 1
            most[large] = max(most[large], now[large])
        time.sleep(0.1)
        with lock:
            now[large] -= 1
        return {}

    monkeypatch.setattr(review, "answer", answer)

    async def crowd() -> None:
        webhook = application()
        await asyncio.gather(
            *(Sender(CROWD, body).send(webhook) for body in [b" " * (server.LARGE + 1), b" "] * 4)
        )

    asyncio.run(crowd())
    assert (most[True], most[False] > 1) == (1, True)


def test_bodies_that_are_read_are_bounded(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, the oldest body of the address that has most is sent away."""
    monkeypatch.setattr(server, "BODIES", 4 * server.LARGE + 16)

    async def crowd() -> list[int]:
        webhook = application()
        peers = [CROWD, CROWD, OTHER, CROWD, CROWD]
        answers = [asyncio.create_task(Sender(peer, *LARGE_PARTS, pause=0.1).send(webhook)) for peer in peers]
        await asyncio.sleep(0.5)
        judged.may_end.set()
        return await asyncio.gather(*answers)

    assert asyncio.run(crowd()) == [503, 200, 200, 200, 200]
