# SPDX-License-Identifier: Apache-2.0
"""Somebody else has a copy of a descriptor by which the daemon watches a process: a child just made."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually

PIDFD_GETFD = 438  # include/uapi/asm-generic/unistd.h
OF_PROCESS = ("anon_inode:[pidfd]", "pidfd:[")  # as kernels before and since 6.9 call it


@contextmanager
def copies(pid: int) -> Iterator[list[int]]:
    """Keep a copy of each of the descriptors of processes that a process has."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    numbers = [int(link.name) for link in Path(f"/proc/{pid}/fd").iterdir() if is_of_process(link)]
    copied = [libc.syscall(PIDFD_GETFD, process, number, 0) for number in numbers]
    os.close(process)
    found = [fd for fd in copied if fd >= 0]
    try:
        yield found
    finally:
        for fd in found:
            os.close(fd)


def is_of_process(link: Path) -> bool:
    """Return whether a descriptor is one of a process; one that is closed meanwhile is none."""
    try:
        return os.readlink(link).startswith(OF_PROCESS)
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_each_end_is_seen_once(fresh: Daemon, end: signal.Signals | None) -> None:
    """An end closes what watched for it and nothing else of the daemon; the next one is seen as well."""
    pid = fresh.pid()
    stdin = os.readlink(f"/proc/{pid}/fd/0")
    for seed in (1, 2):
        sliced = fresh.slice(seed, f"gpu=0:{64 * MIB}", "alloc=1M", "hold", until="hold")
        with copies(pid) as held:
            # One is of the container's first process, one of a process that has made calls.
            assert len(held) >= 2
            if end is None:
                sliced.finish("\n")
            else:
                sliced.process.send_signal(end)
            eventually(lambda: fresh.instances() == [], "the container has gone", instead=fresh.left)
            assert os.readlink(f"/proc/{pid}/fd/0") == stdin
            sliced.process.wait()
