# SPDX-License-Identifier: Apache-2.0
"""The webhook's server: bodies of bounded length, few at a time, and room for the API server in a crowd.

The address of the API server cannot be named in general, so any client that reaches the port may connect.
Where connections, bodies or waiting reviews are too many, the address that has most of them loses its oldest
connection: the API server keeps its own.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from cgpu.kubernetes.admission import review
from cgpu.kubernetes.admission.rewrite import DEFAULTS, Rewritten, Settings
from cgpu.kubernetes.admission.templates import Templates
from cgpu.page_server import Bounds, Connection, Handler, Page, PageServer
from cgpu.service_log import Say

# connections: an API server has at most 200 changes on their way unless told, and waits ten seconds for each.
BOUNDS = Bounds(connections=256, deadline_s=12.0, waiting=128)
MAX_BODY = 8 << 20  # the API server's own bound for an object is 3 MiB, before it fills in what is not said
PART = 64 << 10  # bytes that are read at a time; a body with more is a large one
AT_ONCE = 16  # bodies that are read as objects, each of many times its length
WAITING = 64  # reviews that are read and wait for one of these places
BODIES = 24 << 20  # bytes of all reviews that are here: one of MAX_BODY, and one of PART on each connection
ANSWERS_S = 5.0  # for the answers of a server that ends
Judge = Callable[[Mapping[str, Any]], Rewritten | None]


class Webhook(PageServer):
    """Takes reviews by POST on /pods and /claims; GET /healthz says that it serves."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        templates: Templates,
        say: Say,
        bounds: Bounds = BOUNDS,
        settings: Settings = DEFAULTS,
    ) -> None:
        """Listen. context: where it asks for certificates of clients, only who shows one is judged.

        say: writes what is refused to the log. settings: of all pods. A kubelet that asks whether this serves
        has no certificate. Raises OSError.
        """
        self.say = say
        self.asks_proof = context.verify_mode != ssl.CERT_NONE
        self.judges: Mapping[str, Judge] = {
            "/pods": lambda request: review.pods(request, templates, settings),
            "/claims": review.claims,
        }
        self._context = context
        # A parsed body takes up to 25 times its length: several large ones at once are too much.
        self._turns = {"large": 1, "small": AT_ONCE}
        pages = {"/healthz": lambda _: Page(b"ok")}
        super().__init__(address, pages, bounds, "opencgpu", say, ReviewHandler)

    def get_request(self) -> tuple[ssl.SSLSocket, Any]:
        """Accept a connection; its thread begins with TLS."""
        accepted, address = self.socket.accept()
        return self._context.wrap_socket(accepted, True, do_handshake_on_connect=False), address

    def make_room(self) -> bool:
        """Have a place for one more connection."""
        self._bound(self.bounds.connections - 1, lambda _: 1)
        return True

    def take(self, request: ssl.SSLSocket, amount: int) -> None:
        """Count bytes of a review that have come. Raises ConnectionError where its connection has ended."""
        with self.changed:
            self.open[request].size += amount
            self._bound(BODIES, lambda one: one.size)
            self._check(request)

    def judge(self, request: ssl.SSLSocket, body: bytes, judge: Judge) -> review.Answer:
        """Answer a review when few others are judged. Raises ValueError for what is none, ConnectionError."""
        size = "large" if len(body) > PART else "small"
        with self.changed:
            connection = self.open[request]
            connection.waits = True
            self._bound(WAITING, lambda one: one.waits)
            self.changed.wait_for(lambda: connection.ended or self._turns[size])
            connection.waits = False
            self._check(request)
            self._turns[size] -= 1
        try:
            if _is_gone(request):
                raise ConnectionAbortedError
            return review.answer(body, judge, self.say)
        finally:
            with self.changed:
                self._turns[size] += 1
                self.changed.notify_all()

    def await_answers(self) -> None:
        """Take no more connections, and wait for the answers of those that are here, for a bounded time."""
        self.socket.close()
        end = time.monotonic() + ANSWERS_S
        while self.open and time.monotonic() < end:
            time.sleep(0.05)

    def _check(self, request: ssl.SSLSocket) -> None:
        if self.open[request].ended:
            raise ConnectionAbortedError

    def _bound(self, most: int, weight: Callable[[Connection], int]) -> None:
        """End connections, the oldest of the address that has most, until they weigh no more than that."""
        while True:
            here = {request: one for request, one in self.open.items() if not one.ended and weight(one)}
            of_peer: Counter[str] = Counter()
            for one in here.values():
                of_peer[one.peer] += weight(one)
            if of_peer.total() <= most:
                return
            crowd = max(of_peer, key=of_peer.__getitem__)
            self.end(next(request for request, one in here.items() if one.peer == crowd))


class ReviewHandler(Handler):
    """Serves one connection."""

    server: Webhook
    connection: ssl.SSLSocket

    def handle(self) -> None:
        """Begin with TLS, whose faults are the client's."""
        self.connection.settimeout(self.server.bounds.deadline_s)
        self.connection.do_handshake()
        super().handle()

    def do_POST(self) -> None:  # noqa: N802, http.server's
        """Answer a review."""
        judge = self.server.judges.get(self.page_path())
        if judge is None:
            self.send(Page(b"expected POST /pods or /claims", status=HTTPStatus.NOT_FOUND))
        elif self.server.asks_proof and not self.connection.getpeercert():
            words = b"expected a client certificate, as the API server has"
            self.send(Page(words, status=HTTPStatus.FORBIDDEN))
        else:
            self.send(self._judged(judge))

    def _judged(self, judge: Judge) -> Page:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            return Page(b"expected a Content-Length", status=HTTPStatus.LENGTH_REQUIRED)
        body = self._body(int(length[:20]))
        if len(body) > MAX_BODY:
            return Page(b"too large", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            answer = self.server.judge(self.connection, body, judge)
        except (ValueError, RecursionError) as error:
            return Page(str(error).encode("ascii", "backslashreplace"), status=HTTPStatus.BAD_REQUEST)
        return Page(json.dumps(answer).encode(), "application/json")

    def _body(self, length: int) -> bytes:
        """Read a review, of one that is too large a bit too much. Raises OSError when the client goes."""
        body = bytearray()
        while len(body) < min(length, MAX_BODY + 1):
            part = self.rfile.read1(min(length - len(body), PART))
            if not part:
                raise ConnectionAbortedError
            body += part
            self.server.take(self.connection, len(part))
        return bytes(body)


def _is_gone(connection: ssl.SSLSocket) -> bool:
    """Tell whether a client has closed its connection: nobody awaits the answer."""
    before = connection.gettimeout()
    connection.settimeout(0)
    try:
        return connection.recv(1) == b""
    except ssl.SSLWantReadError:
        return False
    except OSError:
        return True
    finally:
        with contextlib.suppress(OSError):
            connection.settimeout(before)
