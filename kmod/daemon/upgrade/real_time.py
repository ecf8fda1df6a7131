# SPDX-License-Identifier: Apache-2.0
"""Real-time priority for the daemon, for as long as containers wait for its next program."""

from __future__ import annotations

import contextlib
import os

THREADS = "/proc/self/task"


def take_real_time() -> None:
    """Give all threads of this process priority over others, if permitted. The next program has it, too.

    Threads and processes that are made from now on begin without: helpers look at hostile processes.
    """
    _schedule(os.SCHED_RR | os.SCHED_RESET_ON_FORK, 1)


def give_real_time_back() -> None:
    """Give all threads of this process ordinary priority."""
    _schedule(os.SCHED_OTHER, 0)


def _schedule(policy: int, priority: int) -> None:
    for tid in os.listdir(THREADS):
        # A thread may have ended, and a container engine's group may have no real time.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(tid), policy, os.sched_param(priority))
