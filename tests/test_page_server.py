# SPDX-License-Identifier: Apache-2.0
"""The server of pages: its answers, and connections that end with them."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from cgpu.errors import CgpuError
from cgpu.kubernetes.node.server import StatusServer
from cgpu.page_server import JSON, MAX_HEAD, TEXT, Bounds, Page, PageServer
from tests.integration.commands import eventually

LOCAL = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\n"
SHORT_S = 1.0
PLACES = 2


def broken(_: str) -> Page:
    raise CgpuError("the engine is not running;\nstart it")


def mistaken(_: str) -> Page:
    raise ValueError("a mistake")


@contextmanager
def serving(
    page: Callable[[str], Page] = lambda _: Page(b"ok\n"),
    deadline_s: float = 20.0,
    log: Callable[[str], None] = print,
) -> Iterator[PageServer]:
    pages = {"/": page, "/usage": lambda _: Page(b"{}", JSON), "/down": broken, "/bug": mistaken}
    server = PageServer((LOCAL, 0), pages, Bounds(PLACES, deadline_s, 8), "test", log)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def client(stack: ExitStack, server: PageServer) -> http.client.HTTPConnection:
    made = http.client.HTTPConnection(LOCAL, server.port, timeout=240)
    stack.callback(made.close)
    return made


def ask(client: http.client.HTTPConnection, **headers: str) -> http.client.HTTPResponse:
    client.request("GET", "/", headers=headers)
    answer = client.getresponse()
    assert answer.read() == b"ok\n"
    return answer


def raw(stack: ExitStack, server: PageServer, sent: bytes) -> bytes:
    """Return all that a client gets until the server ends the connection."""
    made = stack.enter_context(socket.create_connection((LOCAL, server.port), timeout=240))
    made.sendall(sent)
    got = b""
    while some := made.recv(65536):
        got += some
    return got


def get(port: int, path: str, method: str = "GET", host: str = LOCAL) -> tuple[int, str, bytes]:
    with closing(http.client.HTTPConnection(host, port, timeout=240)) as one:
        one.request(method, path)
        answer = one.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read()


def test_pages() -> None:
    """Each path has its page, with or without a query; others say which there are, or why not in one line.

    Methods other than GET are refused.
    """
    with serving() as server:
        assert get(server.port, "/?verbose") == (200, TEXT, b"ok\n")
        assert get(server.port, "/usage") == (200, JSON, b"{}")
        status, _, body = get(server.port, "/metrics")
        assert status == 404
        assert b"expected one of /, /bug, /down, /usage" in body
        assert get(server.port, "/down") == (503, TEXT, b"the engine is not running;\\nstart it\n")
        for method in ("POST", "PUT", "DELETE", "HEAD"):
            assert get(server.port, "/usage", method)[0] == 501, method


def test_a_mistake_of_ours_is_logged() -> None:
    """A page that fails for no known reason leaves a line in the log, and the server goes on."""
    log: list[str] = []
    with serving(log=log.append) as server:
        with pytest.raises(http.client.BadStatusLine):
            get(server.port, "/bug")
        assert log == ["ValueError: a mistake"]
        assert get(server.port, "/")[0] == 200


def test_the_agents_pages() -> None:
    """Without an address a pod answers over IPv4 and IPv6; a port that is taken is named with its option."""
    with StatusServer("", 0, {"/healthz": lambda _: Page(b"ok\n")}, print) as server:
        assert get(server.port, "/healthz")[0] == 200
        if socket.has_dualstack_ipv6():
            assert get(server.port, "/healthz", host="::1")[0] == 200
        with pytest.raises(CgpuError, match=rf"--status-port: \*:{server.port}: cannot listen"):
            StatusServer("", server.port, {}, print)


def test_a_request_in_work_keeps_its_place() -> None:
    """A connection whose request is being answered ends for no other; one more is closed."""
    begun, go = threading.Semaphore(0), threading.Event()

    def slow(_: str) -> Page:
        begun.release()
        go.wait(20)
        return Page(b"ok\n")

    with serving(slow) as server, ExitStack() as stack:
        stack.callback(go.set)
        busy = [client(stack, server) for _ in range(PLACES)]
        for one in busy:
            one.request("GET", "/")
            assert begun.acquire(timeout=240)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            ask(client(stack, server))
        go.set()
        for one in busy:
            assert one.getresponse().read() == b"ok\n"


def test_a_request_has_a_deadline() -> None:
    """A client that does not end its request is cut off."""
    with serving(deadline_s=SHORT_S) as server, ExitStack() as stack:
        assert raw(stack, server, GET) == b""


@pytest.mark.parametrize(
    "more",
    [
        b"Content-Length: 20\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
        b"Connection: keep-alive\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"Expect: 100-continue\r\nContent-Length: 20\r\n\r\n",
        b"Connection: close\r\n\r\n",
    ],
)
def test_one_answer(more: bytes) -> None:
    """A connection has one answer, whatever follows its request, and ends with that."""
    with serving() as server, ExitStack() as stack:
        got = raw(stack, server, GET + more)
        assert got.startswith(b"HTTP/1.0 200")
        assert got.count(b"HTTP/1.") == 1
        assert got.endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Type: multipart/x; boundary*=a; boundary*0=b",
        b"Content-Type: message/rfc822\r\r" * 1100,
    ],
)
def test_headers_of_a_mail(header: bytes) -> None:
    """Headers that a mail could have are answered like any others, and are no fault of the server."""
    lines: list[str] = []
    with serving(log=lines.append) as server, ExitStack() as stack:
        got = raw(stack, server, GET + header + b"\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.0 200")
    assert lines == []


def test_the_end_of_the_server_ends_its_connections() -> None:
    """A server that has ended serves no client."""
    begun, go = threading.Semaphore(0), threading.Event()

    def slow(_: str) -> Page:
        begun.release()
        go.wait(20)
        return Page(b"ok\n")

    with ExitStack() as stack:
        stack.callback(go.set)
        with serving(slow) as server:
            busy = client(stack, server)
            busy.request("GET", "/")
            assert begun.acquire(timeout=240)
        busy.sock.settimeout(10)
        assert busy.sock.recv(1) == b""


def test_answered_clients_leave_no_thread() -> None:
    """An answer frees its thread and its place."""
    before = threading.active_count()
    with serving() as server, ExitStack() as stack:
        for _ in range(3 * PLACES):
            # A thread that has answered a moment ago may have its place still.
            eventually(lambda: is_answered(client(stack, server)), "a place is free")
        eventually(lambda: threading.active_count() <= before + 1, "no thread is left")


def is_answered(client: http.client.HTTPConnection) -> bool:
    """Ask once; return whether there was a place."""
    try:
        ask(client)
    except (http.client.RemoteDisconnected, ConnectionError):
        return False
    return True


def test_headers_are_bounded_together() -> None:
    """Many long headers, each of a length that is allowed, end with 431 before more of them are read."""
    line = b"a: %s\r\n" % (b"x" * (MAX_HEAD // 2))
    with serving() as server, ExitStack() as stack:
        assert raw(stack, server, GET + line + b"\r\n").startswith(b"HTTP/1.0 200 ")
        assert raw(stack, server, GET + 2 * line).startswith(b"HTTP/1.0 431 ")
