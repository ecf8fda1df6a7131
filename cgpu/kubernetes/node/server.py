# SPDX-License-Identifier: Apache-2.0
"""What the agent tells over HTTP: pages that are read, and nothing that changes anything.

Nobody proves who he is: kube-apiserver hands no name on when it passes a request to a pod. So whoever
reaches the port reads the pages. What he takes of the agent is bounded: few connections, of some seconds.
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Self

from cgpu.errors import CgpuError, one_line

MOST = 16  # connections at a time; others are closed
DEADLINE_S = 5.0  # from the start of a connection to its end
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


# By path. A page that raises CgpuError answers 503 with its line.
Pages = Mapping[str, Callable[[], Page]]


class StatusServer:
    """Serves pages on a port, as a context."""

    def __init__(self, address: str, port: int, pages: Pages, log: Callable[[str], None]) -> None:
        """Listen. address: empty for all. Raises CgpuError."""
        try:
            self._server = _Server(address, port, pages, log)
        except OSError as error:
            place = f"{address or '*'}:{port}"
            raise CgpuError(f"--status-port: {place}: cannot listen there ({error.strerror})") from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="status")

    @property
    def port(self) -> int:
        """The port, which the system has chosen where 0 was asked for."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # of those that nobody has accepted yet; one more would wait for a second

    def __init__(self, address: str, port: int, pages: Pages, log: Callable[[str], None]) -> None:
        self.pages = pages
        self._log = log
        self._lock = threading.Lock()
        self._open: dict[Any, float] = {}
        # All addresses are those of both families, where the pod has both.
        both = not address and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if both or ":" in address else socket.AF_INET
        self._both = both
        super().__init__((address, port), _Handler)

    def server_bind(self) -> None:
        if self._both:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer's own asks for the name of the address, which may take a name server's time.
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._open) >= MOST
            if not full:
                self._open[request] = time.monotonic()
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End what takes too long; called twice a second."""
        late = time.monotonic() - DEADLINE_S
        with self._lock:
            for request in [one for one, since in self._open.items() if since < late]:
                # The place is free when the thread has ended, which may still wait for the engine.
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002, what socketserver gives
        """Write a line for a fault of the agent: a client that goes away is none."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self._log(f"status: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "opencgpu"
    sys_version = ""
    timeout = DEADLINE_S

    def do_GET(self) -> None:
        page = self._page(self.path.partition("?")[0])
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        self.wfile.write(page.body)

    def _page(self, path: str) -> Page:
        make = self.server.pages.get(path)
        if make is None:
            known = ", ".join(sorted(self.server.pages))
            return Page(f"no such page; expected one of {known}\n".encode(), status=HTTPStatus.NOT_FOUND)
        try:
            return make()
        except CgpuError as error:
            return Page(f"{one_line(str(error))}\n".encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002, the name of http.server
        """Write no line for each request."""
