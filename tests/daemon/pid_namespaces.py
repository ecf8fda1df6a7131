# SPDX-License-Identifier: Apache-2.0
"""Processes in a pid namespace of their own, as those of a container are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWPID = 0x20000000  # linux/sched.h; os.unshare and os.setns come with Python 3.12
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def children_in(process: int | None) -> Iterator[None]:
    """Have processes that start meanwhile in a new pid namespace, or in that of a process."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if process is None:
            _check(_LIBC.unshare(CLONE_NEWPID))
        else:
            other = os.open(f"/proc/{process}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _check(_LIBC.setns(other, CLONE_NEWPID))
            finally:
                os.close(other)
        try:
            yield
        finally:
            _check(_LIBC.setns(own, CLONE_NEWPID))
    finally:
        os.close(own)
