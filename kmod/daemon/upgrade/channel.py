# SPDX-License-Identifier: Apache-2.0
"""The socket between a daemon and its successor: objects of JSON, with descriptors."""

from __future__ import annotations

import array
import json
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from cgpu.errors import CgpuError
from cgpu.kmod.daemon import unix_socket

PROTOCOL = 1
MAX_BYTES = 1 << 17
MAX_FDS = 200  # the kernel takes 253 in one message
SEND_S = 2.0


class ChannelError(CgpuError):
    """The other end is gone, is late, or sends no message that can be understood."""


class Channel:
    """One end. A message comes whole or not at all."""

    def __init__(self, sock: socket.socket) -> None:
        """Take the socket over."""
        self._sock = sock
        self.sender = 0  # the process that has sent the last message, as the kernel says
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def fileno(self) -> int:
        """A descriptor that is readable when there is a message, or the other end is gone."""
        return self._sock.fileno()

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message. Raises ChannelError, also when the other end does not read."""
        deadline = time.monotonic() + SEND_S
        data = json.dumps(message).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        while True:
            try:
                # socket.send_fds() ignores flags.
                self._sock.sendmsg([data], rights, socket.MSG_DONTWAIT)
            except BlockingIOError as error:
                if not unix_socket.await_event(self.fileno(), deadline - time.monotonic(), select.POLLOUT):
                    raise ChannelError(f"the other process has not read for {SEND_S:g} s") from error
            except OSError as error:
                raise ChannelError(f"nothing can be handed over: {error.strerror}") from error
            else:
                return

    def receive(self, wait_s: float) -> tuple[dict[str, Any], list[int]]:
        """Wait for one message; its descriptors are the caller's. Raises ChannelError."""
        if not unix_socket.await_event(self.fileno(), wait_s):
            raise ChannelError(f"the other process has not answered within {wait_s:g} s")
        try:
            packet = unix_socket.receive(self._sock, MAX_BYTES, MAX_FDS)
        except OSError as error:
            raise ChannelError(f"the other process is gone: {error.strerror}") from error
        self.sender = packet.pid
        try:
            message = json.loads(packet.data) if packet.data else None
        except (ValueError, RecursionError):
            message = None
        if not packet.whole or not isinstance(message, dict):
            for fd in packet.fds:
                os.close(fd)
            raise ChannelError(
                "a message is not understood" if packet.data else "the other process has ended"
            )
        return message, list(packet.fds)

    def expect(self, say: str, wait_s: float) -> dict[str, Any]:
        """Wait for a message that says this. Raises ChannelError, also with another message's text."""
        message, fds = self.receive(wait_s)
        for fd in fds:
            os.close(fd)
        if message.get("say") != say:
            raise ChannelError(str(message.get("why") or f"{say} was expected: {message.get('say')}"))
        return message

    def close(self) -> None:
        """Hang up."""
        self._sock.close()
