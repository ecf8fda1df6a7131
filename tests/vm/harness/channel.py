# SPDX-License-Identifier: Apache-2.0
"""The host's end of the channel to the agent in the guest: frames, and threads that wait for them.

guest/agent.h has the other side.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence

HEADER = struct.Struct("<III")  # length, job, type
NUMBER = struct.Struct("<I")
CHUNK = 32768

RUN, INPUT, KILL, SYNC = ord("R"), ord("I"), ord("K"), ord("S")
HELLO, STARTED, OUT, ERR, EXIT, LOG = (ord(letter) for letter in "HPOEXL")

Receive = Callable[[int, int, bytes], None]  # job, type, payload


class Channel:
    """A connected socket, and a thread that hands out what comes in."""

    def __init__(self, connection: socket.socket, receive: Receive, ended: Callable[[], None]) -> None:
        """Start reading. `receive` gets every frame; `ended` is called once when the guest has gone."""
        self.connection = connection
        self.receive = receive
        self.ended = ended
        self.sending = threading.Lock()
        self.thread = threading.Thread(target=self.read_all, daemon=True)
        self.thread.start()

    def send(self, job: int, kind: int, payload: bytes = b"") -> None:
        """Send one frame; silent when the guest has gone, as `ended` says so."""
        try:
            with self.sending:
                self.connection.sendall(HEADER.pack(len(payload), job, kind) + payload)
        except OSError:
            return

    def send_run(self, job: int, argv: Sequence[str], env: Mapping[str, str]) -> None:
        words = [*argv, *(f"{key}={value}" for key, value in env.items())]
        strings = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)
        self.send(job, RUN, NUMBER.pack(len(argv)) + NUMBER.pack(len(env)) + strings)

    def send_input(self, job: int, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            self.send(job, INPUT, data[start : start + CHUNK])

    def read_all(self) -> None:
        buffer = bytearray()
        try:
            while data := self.connection.recv(1 << 18):
                buffer += data
                self.hand_out(buffer)
        except OSError:
            pass
        finally:
            self.ended()

    def hand_out(self, buffer: bytearray) -> None:
        """Take the whole frames out of the buffer."""
        at = 0
        while len(buffer) - at >= HEADER.size:
            length, job, kind = HEADER.unpack_from(buffer, at)
            end = at + HEADER.size + length
            if len(buffer) < end:
                break
            self.receive(job, kind, bytes(buffer[at + HEADER.size : end]))
            at = end
        del buffer[:at]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.connection.close()
