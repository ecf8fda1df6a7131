# SPDX-License-Identifier: Apache-2.0
"""The socket between a daemon and its successor: objects of JSON, with descriptors."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from cgpu.errors import CgpuError

PROTOCOL = 1
MOST_NICE = -20
MAX_BYTES = 1 << 16
MAX_FDS = 200  # the kernel takes 253 in one message


@contextlib.contextmanager
def first() -> Iterator[None]:
    """Have this thread go before all others: containers wait for it. Without the right it is as any."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, MOST_NICE)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


class ChannelError(CgpuError):
    """The other end is gone, is late, or says what cannot be understood."""


class Channel:
    """One end. A message comes whole or not at all."""

    def __init__(self, sock: socket.socket) -> None:
        """Take the socket over."""
        self._sock = sock

    def fileno(self) -> int:
        """A descriptor that is readable when there is a message, or the other end is gone."""
        return self._sock.fileno()

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message. Raises ChannelError."""
        try:
            socket.send_fds(self._sock, [json.dumps(message).encode()], list(fds))
        except OSError as error:
            raise ChannelError(f"the other process is gone: {error.strerror}") from error

    def receive(self, wait_s: float) -> tuple[dict[str, Any], list[int]]:
        """Wait for one message; its descriptors are the caller's. Raises ChannelError."""
        deadline = time.monotonic() + wait_s
        if not select.select([self._sock], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise ChannelError(f"the other process has not answered within {wait_s:g} s")
        try:
            data, fds, flags, _ = socket.recv_fds(self._sock, MAX_BYTES, MAX_FDS)
        except OSError as error:
            raise ChannelError(f"the other process is gone: {error.strerror}") from error
        for fd in fds:
            os.set_inheritable(fd, False)
        try:
            message = json.loads(data) if data else None
        except (ValueError, RecursionError):
            message = None
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or not isinstance(message, dict):
            for fd in fds:
                os.close(fd)
            raise ChannelError("the other process has ended" if not data else "a message is not understood")
        return message, fds

    def expect(self, say: str, wait_s: float) -> dict[str, Any]:
        """Wait for a message that says this. Raises ChannelError, also with what is said instead."""
        message, fds = self.receive(wait_s)
        for fd in fds:
            os.close(fd)
        if message.get("say") != say:
            raise ChannelError(str(message.get("why") or f"{say} was expected: {message.get('say')}"))
        return message

    def close(self) -> None:
        """Hang up."""
        self._sock.close()
