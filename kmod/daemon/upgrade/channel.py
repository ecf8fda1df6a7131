# SPDX-License-Identifier: Apache-2.0
"""The socket between a daemon and its successor: objects of JSON, with descriptors."""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from cgpu.errors import CgpuError

PROTOCOL = 1
MAX_BYTES = 1 << 17
MAX_FDS = 200  # the kernel takes 253 in one message
SEND_S = 2.0
_CREDENTIALS = struct.Struct("iII")


class ChannelError(CgpuError):
    """The other end is gone, is late, or says what cannot be understood."""


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
                # Not by socket.send_fds(), which heeds no flags.
                self._sock.sendmsg([data], rights, socket.MSG_DONTWAIT)
            except BlockingIOError as error:
                if not self._await(select.POLLOUT, deadline):
                    raise ChannelError(f"the other process has not read for {SEND_S:g} s") from error
            except OSError as error:
                raise ChannelError(f"nothing can be handed over: {error.strerror}") from error
            else:
                return

    def receive(self, wait_s: float) -> tuple[dict[str, Any], list[int]]:
        """Wait for one message; its descriptors are the caller's. Raises ChannelError."""
        deadline = time.monotonic() + wait_s
        if not self._await(select.POLLIN, deadline):
            raise ChannelError(f"the other process has not answered within {wait_s:g} s")
        try:
            data, fds, flags = self._take()
        except OSError as error:
            raise ChannelError(f"the other process is gone: {error.strerror}") from error
        try:
            message = json.loads(data) if data else None
        except (ValueError, RecursionError):
            message = None
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or not isinstance(message, dict):
            for fd in fds:
                os.close(fd)
            raise ChannelError("the other process has ended" if not data else "a message is not understood")
        return message, fds

    def _await(self, event: int, deadline: float) -> bool:
        # No select(): a daemon with many containers has descriptors beyond what that takes.
        poll = select.poll()
        poll.register(self._sock, event)
        return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))

    def _take(self) -> tuple[bytes, list[int], int]:
        space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(MAX_FDS * 4)
        data, control, flags, _ = self._sock.recvmsg(MAX_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, payload in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
            elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.sender = _CREDENTIALS.unpack(payload[: _CREDENTIALS.size])[0]
        return data, list(fds), flags

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
