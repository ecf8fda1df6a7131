# SPDX-License-Identifier: Apache-2.0
"""The receiving end of sd_notify(3) as far as the keeper needs it: messages, and named descriptors."""

from __future__ import annotations

import array
import contextlib
import os
import re
import select
import socket
import struct
from dataclasses import dataclass

from cgpu import unix_socket
from cgpu.peers import CREDENTIALS, NONE, SCM_PIDFD

FD = struct.Struct("i")
MAX_MESSAGE = 8192
MAX_STORED = 4096
MAX_FDS = 16  # in one message
NAME = re.compile(r"[!-9;-~]{1,255}")  # printable, no colon: names are joined by colons


@dataclass(frozen=True, slots=True)
class Message:
    """One datagram: its sender, as the kernel says, fields and descriptors. The receiver closes them all."""

    pid: int
    uid: int
    pidfd: int
    fields: dict[str, str]
    fds: tuple[int, ...]


def parse_fields(text: bytes) -> dict[str, str]:
    """Split VARIABLE=value lines. Lines of any other form are left out."""
    fields: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").split("\n"):
        key, equals, value = line.partition("=")
        if equals and key:
            fields[key] = value
    return fields


def bind(path: str) -> socket.socket:
    """Make the datagram socket, only for root, which names each sender. Raises OSError."""
    return unix_socket.bind(path, socket.SOCK_DGRAM, credentials=True)


def receive(sock: socket.socket) -> Message | None:
    """Take one message; None when there is none waiting. Raises OSError."""
    space = sum(socket.CMSG_SPACE(size) for size in (CREDENTIALS.size, FD.size, MAX_FDS * FD.size))
    try:
        data, control, flags, _ = sock.recvmsg(MAX_MESSAGE, space, socket.MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return None
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
    # A cut message could name another thing than it meant.
    whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return Message(pid, uid, pidfd, parse_fields(data) if whole else {}, tuple(fds))


class FdStore:
    """Named descriptors, watched for their other end's going away."""

    def __init__(self) -> None:
        """Begin empty."""
        self._entries: dict[int, str] = {}
        self._poll = select.epoll()

    def __len__(self) -> int:
        """Return how many descriptors are held."""
        return len(self._entries)

    def fileno(self) -> int:
        """A descriptor that is readable when an entry has hung up."""
        return self._poll.fileno()

    def add(self, name: str, fds: tuple[int, ...], *, watched: bool = True) -> bool:
        """Take descriptors over under a name. A bad name, a full store: False, and they are closed."""
        if not NAME.fullmatch(name) or len(self._entries) + len(fds) > MAX_STORED:
            for fd in fds:
                os.close(fd)
            return False
        for fd in fds:
            self._entries[fd] = name
            if not watched:
                continue
            # Memory files cannot be polled, and never hang up. And root of containers may watch all that the
            # kernel lets this user watch (ENOSPC).
            with contextlib.suppress(OSError):
                self._poll.register(fd, 0)
        return True

    def remove(self, name: str) -> None:
        """Close everything under a name."""
        for fd in [fd for fd, held in self._entries.items() if held == name]:
            self._close(fd)

    def drop_hung_up(self) -> None:
        """Close descriptors without another end, as a listener whose tasks are all gone."""
        for fd, events in self._poll.poll(0):
            # A listener tells EPOLLERR alone where the look at it was interrupted (kernel/seccomp.c).
            if fd in self._entries and (events & select.EPOLLHUP or unix_socket.await_event(fd, 0, 0)):
                self._close(fd)

    def entries(self) -> list[tuple[str, int]]:
        """Return names and descriptors; the descriptors stay the store's."""
        return [(name, fd) for fd, name in self._entries.items()]

    def close(self) -> None:
        """Close everything."""
        for fd in list(self._entries):
            self._close(fd)
        self._poll.close()

    def _close(self, fd: int) -> None:
        del self._entries[fd]
        with contextlib.suppress(FileNotFoundError, PermissionError):
            self._poll.unregister(fd)
        os.close(fd)
