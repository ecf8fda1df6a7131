# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server of pages, which are read.

A client's part of the process is bounded: few connections, and some seconds for each, which ends with its
answer. Clients are not authenticated.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPMessage, LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from socketserver import TCPServer
from typing import Any, cast

from cgpu.errors import CgpuError, one_line

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
MAX_HEAD = 64 << 10  # bytes of all headers of a request; http.client would keep 100 lines of so many


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


# By path. A page gets the header Accept of the request; one that raises CgpuError answers 503 with its line.
Pages = Mapping[str, Callable[[str], Page]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds for clients.

    connections: at a time; others are closed. deadline_s: from the start of a connection to the end of the
    answer. waiting: connections that are not accepted yet; one more would wait for a second.
    """

    connections: int
    deadline_s: float
    waiting: int


@dataclass(slots=True)
class Connection:
    """A client's connection. peer: its address. since: of the monotonic clock. ended: by the server.

    size: bytes that have come of a body. waits: whether it waits for its turn.
    """

    peer: str
    since: float
    ended: bool = False
    size: int = 0
    waits: bool = False


class PageServer(ThreadingHTTPServer):
    """Serves pages on a port."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: tuple[str, int],
        pages: Pages,
        bounds: Bounds,
        name: str,
        log: Callable[[str], None],
        handler: type[Handler] | None = None,
    ) -> None:
        """Listen. address: a host, empty for all, and a port. name: for the header Server. Raises OSError."""
        self.pages = pages
        self.bounds = bounds
        self.name = name
        self.request_queue_size = bounds.waiting
        self._log = log
        self.changed = threading.Condition()
        self.open: dict[Any, Connection] = {}  # by the request's socket, the oldest first
        # All addresses are those of both families, where the machine has both.
        self._both = not address[0] and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._both or ":" in address[0] else socket.AF_INET
        super().__init__(address, handler or Handler)

    @property
    def port(self) -> int:
        """The port, which the system has chosen where 0 was asked for."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind without a question for the address's name, which may take a name server's time."""
        if self._both:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there is room for one more."""
        with self.changed:
            has_room = self.make_room()
            if has_room:
                self.open[request] = Connection(str(client_address[0]), time.monotonic())
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def make_room(self) -> bool:
        """Return whether there is room for one more connection."""
        return len(self.open) < self.bounds.connections

    def shutdown_request(self, request: Any) -> None:
        """End a connection, and make room."""
        with self.changed:
            self.open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stop listening, and end all connections: from now on no thread checks their deadlines."""
        super().server_close()
        with self.changed:
            for request in self.open:
                self.end(request)

    def service_actions(self) -> None:
        """End what takes too long; called twice a second."""
        late = time.monotonic() - self.bounds.deadline_s
        with self.changed:
            for request in [request for request, one in self.open.items() if one.since < late]:
                # The place is free when the thread has ended, which may still wait for the engine.
                self.end(request)

    def end(self, request: Any) -> None:
        """End a connection, in whatever state it is."""
        self.open[request].ended = True
        self.changed.notify_all()
        with contextlib.suppress(OSError):
            # Past TLS, whose reader in another thread finds the end then.
            socket.socket.shutdown(request, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002, what socketserver gives
        """Write a line for a fault of ours: a client that goes away is none."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self._log(f"{type(error).__name__}: {error}")


class _Headers(HTTPMessage):
    """The headers of a request, which are not followed by the parts of a mail that they may promise."""

    def get_content_type(self) -> str:
        return "text/plain"

    def get_content_maintype(self) -> str:
        return "text"


class _Head:
    """The lines of a request's headers, which are bounded together."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._left = MAX_HEAD

    def readline(self, size: int) -> bytes:
        """Return one more line. Raises LineTooLong, which http.server answers with 431."""
        line = self._stream.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("all headers")
        return line


class Handler(BaseHTTPRequestHandler):
    """Serves one connection."""

    server: PageServer
    MessageClass = _Headers
    # An answer is two writes, of which the second would wait for a word from the client.
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Serve one request: in HTTP/1.0 the answer ends with the connection."""
        self.connection.settimeout(self.server.bounds.deadline_s)
        self.handle_one_request()

    def parse_request(self) -> bool:
        """Read the headers, and return whether there is a request to be answered."""
        stream, self.rfile = self.rfile, cast("BufferedIOBase", _Head(self.rfile))
        try:
            return super().parse_request()
        finally:
            self.rfile = stream

    def version_string(self) -> str:
        """Return the header Server."""
        return self.server.name

    def do_GET(self) -> None:
        """Answer with a page."""
        self.send(self._page(self.page_path()))

    def page_path(self) -> str:
        """Return the path of the request without its query."""
        return self.path.partition("?")[0]

    def send(self, page: Page) -> None:
        """Write an answer, with which the connection ends."""
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(page.body)

    def _page(self, path: str) -> Page:
        make = self.server.pages.get(path)
        if make is None:
            known = ", ".join(sorted(self.server.pages))
            return Page(f"no such page; expected one of {known}\n".encode(), status=HTTPStatus.NOT_FOUND)
        try:
            return make(self.headers.get("Accept", ""))
        except CgpuError as error:
            return Page(f"{one_line(str(error))}\n".encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002, the name of http.server
        """Write no line for each request."""
