# SPDX-License-Identifier: Apache-2.0
"""Real-time priority for this process, for as long as containers wait."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

FIRST_NICE = -19  # the threads that always go first have -20
ROUNDS = 5


class _Attribute(NamedTuple):
    """A scheduling attribute of threads: how to read and set it, and its two values."""

    read: Callable[[int], int]
    write: Callable[[int, int], None]
    ordinary: int
    first: int


@contextlib.contextmanager
def real_time_priority() -> Iterator[None]:
    """Give all threads of this process, and those that they make, priority over others, if permitted.

    For milliseconds: a driver that hangs meanwhile keeps a processor from all others.
    """
    attribute = next((one for one in _attributes() if _move(one, one.ordinary, one.first)), None)
    try:
        yield
    finally:
        if attribute is not None:
            _move(attribute, attribute.first, attribute.ordinary)


def _attributes() -> tuple[_Attribute, ...]:
    nice = _Attribute(
        partial(os.getpriority, os.PRIO_PROCESS),
        partial(os.setpriority, os.PRIO_PROCESS),
        os.getpriority(os.PRIO_PROCESS, 0),
        FIRST_NICE,
    )
    return _Attribute(os.sched_getscheduler, _set_policy, os.SCHED_OTHER, os.SCHED_RR), nice


def _set_policy(tid: int, policy: int) -> None:
    os.sched_setscheduler(tid, policy, os.sched_param(int(policy == os.SCHED_RR)))


def _move(attribute: _Attribute, before: int, after: int) -> bool:
    # A new thread has the value of the one that made it; others end meanwhile.
    for _ in range(ROUNDS):
        found = [tid for tid in map(int, os.listdir("/proc/self/task")) if _is(attribute, tid, before)]
        for tid in found:
            with contextlib.suppress(OSError):
                attribute.write(tid, after)
        if not found:
            break
    return attribute.read(0) == after


def _is(attribute: _Attribute, tid: int, value: int) -> bool:
    try:
        return attribute.read(tid) == value
    except OSError:
        return False
