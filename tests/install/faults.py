# SPDX-License-Identifier: Apache-2.0
"""Faults at each call that changes a file system: an error or the end of the process, before or behind it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

CALLS = ("open", "replace", "fsync", "mkdir", "unlink", "rmdir", "fchmod", "chmod", "utime")
When = Literal["before", "behind"]


@dataclass
class Fault:
    """One fault at the call with this number. With at = -1 it only counts."""

    at: int
    when: When
    strike: Callable[[], None]
    count: int = 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that may meet the fault."""

        def faulty(*words: Any, **named: Any) -> Any:
            number, self.count = self.count, self.count + 1
            if number == self.at and self.when == "before":
                self.strike()
            try:
                return call(*words, **named)
            finally:
                if number == self.at and self.when == "behind":
                    self.strike()

        return faulty


@contextmanager
def meeting(fault: Fault) -> Iterator[Fault]:
    """Have the calls of this process meet the fault."""
    real = {name: getattr(os, name) for name in CALLS}
    for name, call in real.items():
        setattr(os, name, fault.wrap(call))
    try:
        yield fault
    finally:
        for name, call in real.items():
            setattr(os, name, call)


def error() -> None:
    """Fail as a broken disk does."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def end() -> None:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def count(work: Callable[[], object]) -> int:
    """Return how many such calls a piece of work makes."""
    with meeting(Fault(-1, "before", error)) as fault:
        work()
    return fault.count


def in_child(work: Callable[[], object], at: int) -> bool:
    """Do the work in a process of its own, which ends behind a call; return whether it came to that.

    Before a call is behind the one before: nothing is between two that anybody could find later.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with meeting(Fault(at, "behind", end)):
                work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return False
