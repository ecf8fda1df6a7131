# SPDX-License-Identifier: Apache-2.0
"""Access to our Unix sockets: root of the host alone may ask. Every server decides by this file.

The listeners' socket is found in the tree, by processes that may write there (kmod/daemon/tree/callers.py).

The permissions of a socket's file keep other users out. They do not keep out uid 0 of a container that sees
the node's /run: it connects without any capability, and through a read-only mount. So the asking process must
be in the server's own user, mount and PID namespaces, which are the host's.

Namespaces are found by a process's number, which the kernel gives out again. A pidfd stays with one process:
as long as that has not ended, nobody else has its number. Since Linux 6.5 the kernel gives the pidfd of the
process that has connected or sent. On an older one the pidfd is opened by number; where a pipe came with a
message, the process that has the number must have the pipe open, too.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import socket
import struct
from collections.abc import Callable

from cgpu.unix_socket import await_event

log = logging.getLogger(__name__)

# include/uapi/asm-generic/socket.h, include/linux/socket.h. Python has no names for them.
SO_PEERPIDFD, SCM_PIDFD = 77, 4
CREDENTIALS = struct.Struct("iII")
# In this order: a shell of the host's may have another mount namespace alone, and a container seldom has.
NAMESPACES = {"user": "user", "pid": "PID", "mnt": "mount"}
MOUNTS_DIFFER = "another mount namespace"
NONE = -1  # no pidfd: the kernel gives none of another process
ROOT = "expected root of the host"
ENDED = "a process asked that has ended"

Rule = Callable[[int], None]
"""Looks at a process by its number; raises RefusedError or OSError."""


class RefusedError(Exception):
    """A process may not ask. The text says why, and names no process: it is the same for all of its kind."""


class EndedError(RefusedError):
    """A process has ended before it was looked at."""


def check_namespaces(pid: int) -> None:
    """Raise RefusedError unless a process has the server's namespaces. Raises OSError."""
    for namespace, own in own_namespaces().items():
        if namespace_of(pid, namespace) != own:
            raise RefusedError(f"a process in another {NAMESPACES[namespace]} namespace asks; {ROOT}")


def check_peer(sock: socket.socket, rule: Rule = check_namespaces) -> None:
    """Raise RefusedError unless the process that has connected may ask."""
    pid, uid = identity_of(sock)
    check(pid, uid, _pidfd_of(sock), rule)


def identity_of(sock: socket.socket) -> tuple[int, int]:
    """Return process and user id at the other end, as they were when it connected."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(credentials)
    return int(pid), int(uid)


def check(pid: int, uid: int, pidfd: int = NONE, rule: Rule = check_namespaces) -> None:
    """Raise RefusedError unless a process of root's meets the rule. pidfd: its own, which is closed here."""
    try:
        if uid != 0:
            raise RefusedError(f"a user who is not root asks; {ROOT}")
        # The kernel gives 0 for a process that the server's own PID namespace does not show.
        if pid <= 0:
            raise RefusedError(f"a process in another PID namespace asks; {ROOT}")
        pidfd = pidfd if pidfd >= 0 else os.pidfd_open(pid)
        try:
            rule(pid)
        finally:
            # The rule went by the number, which is this process's as long as it has not ended.
            if await_event(pidfd, 0):
                raise EndedError(ENDED)
    except ProcessLookupError as error:
        raise EndedError(ENDED) from error
    except PermissionError as error:
        raise RefusedError(f"a process asks that lacks rights; {ROOT}") from error
    except OSError as error:
        raise RefusedError(f"a process asks that cannot be looked at: {error.strerror}") from error
    finally:
        if pidfd >= 0:
            os.close(pidfd)


def check_has_open(pid: int, fd: int) -> None:
    """Raise RefusedError unless a process has the file of a descriptor of ours open. Raises OSError."""
    wanted = os.readlink(f"/proc/self/fd/{fd}")
    folder = f"/proc/{pid}/fd"
    for number in os.listdir(folder):
        try:
            # The name alone: a file of a file system that does not answer is not touched.
            if os.readlink(f"{folder}/{number}") == wanted:
                return
        except FileNotFoundError:
            continue  # closed meanwhile
    raise EndedError(ENDED)


def report(server: str, error: RefusedError) -> None:
    """Log a refusal, each kind once: a refused process could ask for ever."""
    _report_once(server, str(error))


@functools.cache
def _report_once(server: str, why: str) -> None:
    log.warning("%s: refused: %s (logged once)", server, why)


@functools.cache
def own_namespaces() -> dict[str, tuple[int, int]]:
    """Return the server's own namespaces by name."""
    return {namespace: namespace_of(os.getpid(), namespace) for namespace in NAMESPACES}


def namespace_of(pid: int, namespace: str) -> tuple[int, int]:
    """Return a namespace of a process, by its file's identity. Raises OSError."""
    found = os.stat(f"/proc/{pid}/ns/{namespace}")
    return found.st_dev, found.st_ino


def _pidfd_of(sock: socket.socket) -> int:
    try:
        return sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return NONE
        raise EndedError(ENDED) from error
