# SPDX-License-Identifier: Apache-2.0
"""The agent's pages over HTTP, with clients of every kind."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cgpu.errors import CgpuError
from cgpu.kubernetes.node.server import StatusServer
from cgpu.page_server import JSON, TEXT, Page

LOCAL = "127.0.0.1"


def broken(_: str) -> Page:
    raise CgpuError("the engine is not running;\nstart it")


def mistaken(_: str) -> Page:
    raise ValueError("a mistake")


PAGES = {
    "/healthz": lambda _: Page(b"ok\n"),
    "/v1/usage": lambda _: Page(b"{}", JSON),
    "/down": broken,
    "/bug": mistaken,
}


@contextmanager
def serving(log: list[str] | None = None, address: str = LOCAL) -> Iterator[int]:
    lines = [] if log is None else log
    with StatusServer(address, 0, PAGES, lines.append) as found:
        yield found.port


def get(port: int, path: str, method: str = "GET", host: str = LOCAL) -> tuple[int, str, bytes]:
    client = http.client.HTTPConnection(host, port, timeout=240)
    try:
        client.request(method, path)
        answer = client.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read()
    finally:
        client.close()


def test_pages() -> None:
    """Each path has its page, with or without a query; others say which there are, or why not in one line."""
    with serving() as port:
        assert get(port, "/healthz?verbose") == (200, TEXT, b"ok\n")
        assert get(port, "/v1/usage") == (200, JSON, b"{}")
        status, _, body = get(port, "/metrics")
        assert status == 404
        assert b"expected one of /bug, /down, /healthz, /v1/usage" in body
        assert get(port, "/down") == (503, TEXT, b"the engine is not running;\\nstart it\n")


def test_a_mistake_of_ours_is_logged() -> None:
    """A page that fails for no known reason leaves a line in the log, and the server goes on."""
    log: list[str] = []
    with serving(log) as port:
        with pytest.raises(http.client.BadStatusLine):
            get(port, "/bug")
        assert log == ["status: ValueError: a mistake"]
        assert get(port, "/healthz")[0] == 200


def test_nothing_changes_anything() -> None:
    """Whatever is no GET is refused."""
    with serving() as port:
        for method in ("POST", "PUT", "DELETE", "HEAD"):
            assert get(port, "/v1/usage", method)[0] == 501, method


def test_both_families() -> None:
    """Without an address a pod answers over IPv4 and IPv6."""
    with serving(address="") as port:
        assert get(port, "/healthz")[0] == 200
        if socket.has_dualstack_ipv6():
            assert get(port, "/healthz", host="::1")[0] == 200


def test_a_port_that_is_taken() -> None:
    """The line names the option and the port."""
    with (
        serving() as port,
        pytest.raises(CgpuError, match=rf"--status-port: 127\.0\.0\.1:{port}: cannot listen"),
    ):
        StatusServer(LOCAL, port, PAGES, print)
