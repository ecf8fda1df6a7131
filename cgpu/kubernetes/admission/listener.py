# SPDX-License-Identifier: Apache-2.0
"""The webhook's listener: few connections at a time, each for a bounded time.

The address of the API server cannot be named in general, so any client that reaches the port may connect.
Where all places are taken the address that has most of them loses its oldest one: the API server keeps its
own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

MOST = 256  # an API server has at most 200 changes on their way unless told; all take 180 MiB at worst
CONNECTION_S = 30.0  # the API server waits ten seconds for an answer


class Listener(socket.socket):
    """A listening socket for asyncio, which calls accept(); also connections in their handshake count."""

    def __init__(self, address: str, port: int, most: int = MOST, connection_s: float = CONNECTION_S) -> None:
        """Bind. Raises OSError."""
        super().__init__(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        self._most = most
        self._connection_s = connection_s
        self._open: dict[str, dict[Connection, asyncio.TimerHandle]] = {}  # by address, the oldest first
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((address, port))
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and end another one where there are too many."""
        accepted, peer = super().accept()
        connection = Connection(self, str(peer[0]), accepted.detach())
        if self.number() >= self._most:
            crowd = max(self._open, key=lambda peer: len(self._open[peer]))
            next(iter(self._open[crowd])).end()
        timer = asyncio.get_running_loop().call_later(self._connection_s, connection.end)
        self._open.setdefault(connection.peer, {})[connection] = timer
        return connection, peer

    def number(self) -> int:
        """Return how many connections there are."""
        return sum(map(len, self._open.values()))

    def forget(self, connection: Connection) -> None:
        """Count a connection no more."""
        of_peer = self._open.get(connection.peer, {})
        timer = of_peer.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if not of_peer:
            self._open.pop(connection.peer, None)


class Connection(socket.socket):
    """An accepted connection, which asyncio closes."""

    def __init__(self, listener: Listener, peer: str, descriptor: int) -> None:
        """Take a descriptor over. peer: the address at the other end."""
        super().__init__(fileno=descriptor)
        self.peer = peer
        self._listener = listener
        self._ended = False

    def end(self) -> None:
        """Have asyncio find that the connection has ended, in whatever state it is."""
        self._listener.forget(self)
        self._ended = True
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def recv(self, *args: Any) -> bytes:
        """Read; bytes from before the connection was ended would make a review that no client awaits."""
        return b"" if self._ended else super().recv(*args)

    def recv_into(self, *args: Any) -> int:
        """Read into a buffer, likewise."""
        return 0 if self._ended else super().recv_into(*args)

    def close(self) -> None:
        """Close it; count it no more."""
        self._listener.forget(self)
        super().close()
