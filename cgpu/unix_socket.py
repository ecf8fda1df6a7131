# SPDX-License-Identifier: Apache-2.0
"""Unix sockets that only root can reach, and the wait for a descriptor."""

from __future__ import annotations

import contextlib
import os
import select
import socket

SO_PASSPIDFD = 76  # include/uapi/asm-generic/socket.h; Python has no name for it


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


def await_event(fd: int, wait_s: float | None, event: int = select.POLLIN) -> bool:
    """Wait until a descriptor is ready, or has hung up; None: for ever. False: it is not in this time.

    No select(): a daemon with many containers has descriptors beyond what that takes.
    """
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if wait_s is None else max(0.0, wait_s) * 1000))
