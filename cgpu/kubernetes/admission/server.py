# SPDX-License-Identifier: Apache-2.0
"""The webhook's server: three paths, bodies of bounded length, few at a time, no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from cgpu.kubernetes.admission import review
from cgpu.kubernetes.admission.rewrite import Rewritten
from cgpu.kubernetes.admission.room import Place, Room
from cgpu.kubernetes.admission.templates import Templates
from cgpu.service_log import Say

MAX_BODY = 8 << 20  # the API server's own bound for an object is 3 MiB, before it fills in what is not said
LARGE = 64 << 10
AT_ONCE = 16  # bodies that are read as objects, each of many times its length
WAITING = 64  # reviews that are read and wait for one of these places
BODY_S = 10.0  # the API server waits no longer for an answer
BODIES = 24 << 20  # bytes of reviews that come or wait: one of MAX_BODY, and one of LARGE on each connection
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PROVED = "proved"  # in a request's state: the client has shown a certificate of the authority
Judge = Callable[[Mapping[str, Any]], Rewritten | None]


class RefusedError(Exception):
    """A review is not judged. status: of the answer."""

    def __init__(self, status: int, words: bytes) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class Webhook:
    """An ASGI application. POST /pods and /claims take reviews, GET /healthz says that it serves."""

    def __init__(self, templates: Templates, say: Say, *, asks_proof: bool = False) -> None:
        """Make templates with these. say: writes what is refused to the log.

        asks_proof: take reviews only of who shows a certificate of the clients' authority. A kubelet that
        asks whether this serves has none.
        """
        self._say = say
        self._judges: Mapping[str, Judge] = {
            "/pods": lambda request: review.pods(request, templates),
            "/claims": review.claims,
        }
        # A parsed body takes up to 25 times its length: several large ones at once are too much.
        self._large = asyncio.Semaphore(1)
        self._few = asyncio.Semaphore(AT_ONCE)
        self._bodies = Room(BODIES)
        self._waiting = Room(WAITING)
        self._asks_proof = asks_proof

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["method"] == "GET" and scope["path"] == "/healthz":
            await _send(send, 200, b"ok", "text/plain")
            return
        judge = self._judges.get(scope["path"])
        if judge is None or scope["method"] != "POST":
            await _send(send, 404, b"expected POST /pods or /claims", "text/plain")
            return
        if self._asks_proof and not scope.get("state", {}).get(PROVED):
            await _send(send, 403, b"expected a client certificate, as the API server has", "text/plain")
            return
        await self._judge(Place(_peer(scope), BODY_S), receive, send, judge)

    async def _judge(self, place: Place, receive: Receive, send: Send, judge: Judge) -> None:
        try:
            # Requests to the API server, which it makes, must not hold up other reviews.
            async with self._turn(place, receive) as body:
                answer = await asyncio.to_thread(review.answer, body, judge, self._say)
        except RefusedError as error:
            await _send(send, error.status, error.words, "text/plain")
            return
        except ValueError as error:
            await _send(send, 400, str(error).encode("ascii", "backslashreplace"), "text/plain")
            return
        await _send(send, 200, json.dumps(answer).encode(), "application/json")

    @asynccontextmanager
    async def _turn(self, place: Place, receive: Receive) -> AsyncIterator[bytes]:
        """Read a review, and wait until few others are judged. Raises RefusedError."""
        body = None
        try:
            async with place:
                # A sender who is slow holds up no other: a turn is taken once all has come.
                body = await self._body(place, receive)
                turns = self._large if len(body) > LARGE else self._few
                await self._wait(place, receive, turns)
        except TimeoutError:
            if body is None and not place.ended:
                raise RefusedError(408, b"too slow") from None
            raise RefusedError(503, b"too many reviews") from None
        finally:
            self._bodies.leave(place)
        try:
            yield body
        finally:
            turns.release()

    async def _body(self, place: Place, receive: Receive) -> bytes:
        """Return the body, which takes of the room for bodies."""
        parts: list[bytes] = []
        length = 0
        while True:
            message = await receive()
            if message.get("type") == "http.disconnect":
                return b""
            part = message.get("body", b"")
            length += len(part)
            if length > MAX_BODY:
                raise RefusedError(413, b"too large")
            parts.append(part)
            self._bodies.take(place, len(part))
            if not message.get("more_body"):
                return b"".join(parts)

    async def _wait(self, place: Place, receive: Receive, turns: asyncio.Semaphore) -> None:
        # uvicorn ends no application whose client has gone: the review would wait here with its body.
        gone = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(lambda _: place.end())
        try:
            self._waiting.take(place)
            await turns.acquire()
        finally:
            gone.cancel()
            self._waiting.leave(place)


class Protocol(H11Protocol):
    """HTTP that tells the application whether the client has shown a certificate, which TLS has verified."""

    # asyncio declares a wider transport than uvicorn takes.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection, after its handshake."""
        super().connection_made(transport)
        shown = transport.get_extra_info("ssl_object")
        self.app_state = {**self.app_state, PROVED: bool(shown is not None and shown.getpeercert())}


def _peer(scope: Scope) -> str:
    """Return the address of the client."""
    return str((scope.get("client") or ("",))[0])


async def _gone(receive: Receive) -> None:
    """Return when the client has gone, whose body has been read."""
    while (await receive()).get("type") != "http.disconnect":
        pass


async def _send(send: Send, status: int, body: bytes, kind: str) -> None:
    # The API server refuses a pod if a connection that it keeps is closed while it sends the next call:
    # by a replica that goes, or one that has waited long enough. So each connection ends with its answer.
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
