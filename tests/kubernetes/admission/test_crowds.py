# SPDX-License-Identifier: Apache-2.0
"""Reviews of many senders, which go, wait or are slow: the webhook's buffers are bounded."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cgpu.kubernetes.admission import review, server
from cgpu.page_server import Bounds
from tests.kubernetes.admission.test_review import POD, FewTemplates, client_of, request, serving

CROWD, OTHER = "127.0.0.2", "127.0.0.3"
LARGE = b" " * (server.PART + 1)


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


class Sender:
    """One that has sent a review, less its last bytes, and not read the answer."""

    def __init__(self, url: str, folder: Path, peer: str, body: bytes, left: int = 0) -> None:
        trusted = ssl.create_default_context(cafile=folder / "tls.crt")
        place = ("127.0.0.1", int(url.rpartition(":")[2]))
        connection = socket.create_connection(place, source_address=(peer, 0))
        self.socket = trusted.wrap_socket(connection, server_hostname="127.0.0.1")
        self.socket.settimeout(20)
        head = b"POST /pods HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.socket.sendall(head + body[: len(body) - left])
        time.sleep(0.1)  # the order of reviews is that of their senders

    def status(self) -> int:
        """Return that of the answer; 0 where the connection was ended without one."""
        with self.socket:
            try:
                line = self.socket.recv(64)
            except OSError:
                return 0
        return int(line.split()[1]) if line else 0


def test_reviews_of_who_has_gone_are_left(tmp_path: Path, judged: Judged) -> None:
    """A review whose sender has gone while it waited is not judged, and its place is free."""
    with serving(tmp_path, FewTemplates()) as url:
        senders = [Sender(url, tmp_path, CROWD, request(POD)) for _ in range(6)]
        for sender in senders:
            sender.socket.close()
        time.sleep(0.5)
        judged.may_end.set()
        with client_of(url, tmp_path) as client:
            assert client.post("/pods", content=request(POD)).status_code == 200
    assert judged.number == 2


def test_waiting_reviews_are_bounded(tmp_path: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, the oldest review of the address that has most is sent away; others wait on."""
    monkeypatch.setattr(server, "WAITING", 4)
    peers = [CROWD] * 4 + [OTHER] + [CROWD] * 4
    with serving(tmp_path, FewTemplates()) as url:
        senders = [Sender(url, tmp_path, peer, b"1") for peer in peers]
        judged.may_end.set()
        assert [one.status() for one in senders] == [200, 0, 0, 0, 200, 0, 200, 200, 200]


def test_nobody_waits_for_ever(tmp_path: Path, judged: Judged) -> None:
    """A review that the API server awaits no more is given up."""
    with serving(tmp_path, FewTemplates(), Bounds(8, 0.5, 8)) as url:
        senders = [Sender(url, tmp_path, CROWD, b"1") for _ in range(2)]
        assert [one.status() for one in senders] == [0, 0]
        judged.may_end.set()
    assert judged.number == 1


def test_slow_senders_hold_up_no_large_review(tmp_path: Path, judged: Judged) -> None:
    """Large bodies are read at once, though one at a time is judged."""
    judged.may_end.set()
    with serving(tmp_path, FewTemplates()) as url:
        slow = [Sender(url, tmp_path, CROWD, LARGE, left=1) for _ in range(15)]
        assert Sender(url, tmp_path, OTHER, LARGE).status() == 200
        for sender in slow:
            sender.socket.close()


def test_large_bodies_go_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body takes many times its length in memory when it is read; small ones wait for none."""
    now, most = {True: 0, False: 0}, {True: 0, False: 0}
    lock = threading.Lock()

    def answer(body: bytes, _judge: object, _say: object) -> dict[str, Any]:
        large = len(body) > server.PART
        with lock:
            now[large] += 1
            most[large] = max(most[large], now[large])
        time.sleep(0.3)
        with lock:
            now[large] -= 1
        return {}

    monkeypatch.setattr(review, "answer", answer)
    with serving(tmp_path, FewTemplates()) as url, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda body: Sender(url, tmp_path, CROWD, body).status(), [LARGE, b" "] * 4))
    assert (most[True], most[False] > 1) == (1, True)


def test_bodies_that_are_read_are_bounded(
    tmp_path: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound, the oldest body of the address that has most is sent away."""
    monkeypatch.setattr(server, "BODIES", 4 * server.PART + 16)
    judged.may_end.set()
    with serving(tmp_path, FewTemplates()) as url:
        peers = (CROWD, CROWD, OTHER, CROWD, CROWD)
        senders = [Sender(url, tmp_path, peer, LARGE, left=1) for peer in peers]
        for sender in senders[1:]:
            sender.socket.sendall(b"1")
        assert [one.status() for one in senders] == [0, 200, 200, 200, 200]
