# SPDX-License-Identifier: Apache-2.0
"""Unix sockets that only root can reach, and their messages: bytes, descriptors and the sender."""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
from dataclasses import dataclass

from cgpu.peers import CREDENTIALS, NONE, SCM_PIDFD, SO_PASSPIDFD

FD = struct.Struct("i")


@dataclass(frozen=True, slots=True)
class Packet:
    """One message. pid, uid, pidfd: of its sender, as the kernel says. whole: nothing of it was cut off."""

    data: bytes
    fds: tuple[int, ...]
    pid: int
    uid: int
    whole: bool
    pidfd: int = NONE


def bind(path: str, kind: socket.SocketKind, *, credentials: bool = False) -> socket.socket:
    """Make a socket that only root can reach, and replace one that was left there. Raises OSError.

    credentials: each message tells who sent it, from the first one on.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, credentials)
    with contextlib.suppress(OSError):  # before Linux 6.5
        sock.setsockopt(socket.SOL_SOCKET, SO_PASSPIDFD, credentials)
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


def receive(sock: socket.socket, max_bytes: int, max_fds: int) -> Packet:
    """Take one message of a socket with SO_PASSCRED; its descriptors are the caller's. Raises OSError."""
    space = sum(socket.CMSG_SPACE(size) for size in (CREDENTIALS.size, FD.size, max_fds * FD.size))
    data, control, flags, _ = sock.recvmsg(max_bytes, space, socket.MSG_CMSG_CLOEXEC)
    pid, uid, pidfd = 0, -1, NONE
    fds = array.array("i")
    for level, kind, payload in control:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_CREDENTIALS and len(payload) >= CREDENTIALS.size:
            pid, uid, _ = CREDENTIALS.unpack(payload[: CREDENTIALS.size])
        elif kind == SCM_PIDFD and len(payload) >= FD.size:
            # A negative errno where the sender has ended.
            pidfd = max(NONE, *FD.unpack(payload[: FD.size]))
        elif kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return Packet(data, tuple(fds), pid, uid, whole, pidfd)


def await_event(fd: int, wait_s: float | None, event: int = select.POLLIN) -> bool:
    """Wait until a descriptor is ready, or has hung up; None: for ever. False: it is not in this time.

    No select(): a daemon with many containers has descriptors beyond what that takes.
    """
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if wait_s is None else max(0.0, wait_s) * 1000))
