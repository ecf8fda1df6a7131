# SPDX-License-Identifier: Apache-2.0
"""Unix sockets that only root can reach, and what comes through them: bytes, descriptors, and who sends."""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class Packet:
    """One message. pid, uid: of its sender, as the kernel says. whole: nothing of it was cut off."""

    data: bytes
    fds: tuple[int, ...]
    pid: int
    uid: int
    whole: bool


def bind(path: str, kind: socket.SocketKind, *, credentials: bool = False) -> socket.socket:
    """Make a socket that only root can reach, and replace one that was left there. Raises OSError.

    credentials: each message tells who sent it, from the first one on.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, credentials)
    old = os.umask(0o177)
    try:
        sock.bind(path)
    finally:
        os.umask(old)
    return sock


def listen(path: str) -> socket.socket:
    """Make a stream socket that listens. Raises OSError."""
    sock = bind(path, socket.SOCK_STREAM)
    sock.listen(128)
    return sock


def peer(sock: socket.socket) -> tuple[int, int]:
    """Return process and user id at the other end, as they were when it connected."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    return int(pid), int(uid)


def receive(sock: socket.socket, max_bytes: int, max_fds: int) -> Packet:
    """Take one message of a socket with SO_PASSCRED; its descriptors are the caller's. Raises OSError."""
    space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(max_fds * 4)
    data, control, flags, _ = sock.recvmsg(max_bytes, space, socket.MSG_CMSG_CLOEXEC)
    pid, uid = 0, -1
    fds = array.array("i")
    for level, kind, payload in control:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_CREDENTIALS and len(payload) >= _CREDENTIALS.size:
            pid, uid, _ = _CREDENTIALS.unpack(payload[: _CREDENTIALS.size])
        elif kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return Packet(data, tuple(fds), pid, uid, whole)


def await_event(fd: int, wait_s: float | None, event: int = select.POLLIN) -> bool:
    """Wait until a descriptor is ready, or has hung up; None: for ever. False: it is not in this time.

    No select(): a daemon with many containers has descriptors beyond what that takes.
    """
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if wait_s is None else max(0.0, wait_s) * 1000))
