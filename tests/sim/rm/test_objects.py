# SPDX-License-Identifier: Apache-2.0
"""What the server must ask the kernel for: the rights of a caller, and the end of those who have a file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from tests.sim.abi import PAGE_BIG, Status
from tests.sim.client import Client
from tests.sim.support import Sim

LOCAL_PHYSICAL = 0xC2  # NV01_MEMORY_LOCAL_PHYSICAL


def in_child(job: Callable[[], int]) -> int:
    """Run a function in a forked process and return what it returns."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = job()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_privileged_classes(client: Client) -> None:
    """A class that aliases the whole card needs CAP_SYS_ADMIN of the calling task."""

    def without_rights() -> int:
        os.setresuid(65534, 65534, 65534)
        return client.alloc(client.device, LOCAL_PHYSICAL, bytearray(512))[0]

    assert client.alloc(client.device, LOCAL_PHYSICAL, bytearray(512))[0] == Status.OK
    assert in_child(without_rights) == Status.INSUFFICIENT_PERMISSIONS


def test_last_close_frees(sim: Sim) -> None:
    """All memory of a description goes with its last copy: after dup, fork and passing, not before."""
    client = sim.client()
    client.alloc_memory(PAGE_BIG)
    copy = os.dup(client.ctl)
    client.close()
    assert sim.used() == PAGE_BIG
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.close(copy)
        ours.close()
        fd = socket.recv_fds(theirs, 1, 1)[1][0]
        theirs.sendall(b"have it")
        theirs.recv(1)
        os.close(fd)
        os._exit(0)
    theirs.close()
    socket.send_fds(ours, [b"x"], [copy])
    assert ours.recv(16) == b"have it"
    os.close(copy)
    assert sim.used() == PAGE_BIG
    ours.close()
    assert os.waitpid(pid, 0)[1] == 0
    assert sim.settles(0, 0)
