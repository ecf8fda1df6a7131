# SPDX-License-Identifier: Apache-2.0
"""Leaves many seccomp listeners behind, as execs by a runtime do whose programs go on in the background.

Usage: leaving.py SECCOMP_SOCKET CONTAINER_ID COUNT
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import sliced  # type: ignore[import-not-found]


def leave(path: str, container_id: str) -> None:
    """Be a process with a filter of its own, for as long as its parent lives."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    message = sliced.state(container_id)
    fd = sliced.install()
    socket.send_fds(sock, [message], [fd])
    sock.close()
    os.close(fd)
    while os.getppid() != 1:
        time.sleep(1)


def main(path: str, container_id: str, count: str) -> None:
    """Leave them, and wait for the end of standard input."""
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            try:
                leave(path, container_id)
            finally:
                os._exit(0)
        children.append(child)
    print("left", flush=True)
    sys.stdin.read()
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
