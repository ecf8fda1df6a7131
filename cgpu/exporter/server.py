# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server for metrics: few connections, short requests, nothing kept open for long."""

from __future__ import annotations

import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from cgpu import __version__
from cgpu.errors import CgpuError

CONNECTIONS = 8
REQUEST_S = 5.0  # for a whole request, and for its answer
PLAIN = "text/plain; charset=utf-8"
ROOT = b"OpenCGPU exporter: /metrics, /healthz\n"


class Server(ThreadingHTTPServer):
    """Serves /metrics of a registry. A connection beyond CONNECTIONS is closed at once."""

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        """Listen. Raises CgpuError when the address cannot be had."""
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.registry = registry
        self.scrape = threading.Lock()
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        try:
            super().__init__(address, Handler)
        except OSError as error:
            raise CgpuError(
                f"{address[0]}:{address[1]}: cannot listen ({error.strerror}); another: --listen ADDRESS:PORT"
            ) from error

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there is room for one more."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve it, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: who scrapes has gone, or was too slow."""


class Handler(BaseHTTPRequestHandler):
    """One request for each connection."""

    server: Server
    timeout = REQUEST_S
    server_version = f"opencgpu-exporter/{__version__}"
    sys_version = ""

    def handle(self) -> None:
        """Serve it; whoever sends byte by byte is cut off."""
        cut = threading.Timer(REQUEST_S, self._cut)
        cut.daemon = True
        cut.start()
        try:
            super().handle()
        finally:
            cut.cancel()

    def do_GET(self) -> None:
        """Answer with metrics, or with what there is."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            # One at a time: a read of the tree waits while cgpud is started again; others need not.
            if not self.server.scrape.acquire(timeout=REQUEST_S / 2):
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the engine's tree does not answer\n", PLAIN)
                return
            try:
                body = encode(self.server.registry)
            finally:
                self.server.scrape.release()
            self._answer(HTTPStatus.OK, body, kind)
        elif path == "/healthz":
            self._answer(HTTPStatus.OK, b"ok\n", PLAIN)
        elif path == "/":
            self._answer(HTTPStatus.OK, ROOT, PLAIN)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"not found; there is: /metrics\n", PLAIN)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
        """Nothing: a scrape every few seconds is no event."""

    def _cut(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
