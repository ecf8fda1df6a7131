# SPDX-License-Identifier: Apache-2.0
"""Signals for the command: held back while its slice is made, then handed on."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

HANDED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
     signal.SIGALRM, signal.SIGPWR, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)}
)  # fmt: skip
WATCHED = HANDED_ON | {signal.SIGCHLD}
# The terminal's driver sends these to all processes in the foreground: the command has got them itself.
BY_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT})
SI_KERNEL = 0x80
# Python ignores these; a new program expects the system's default.
PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True, slots=True)
class Before:
    """The mask that was in force before signals were held back."""

    mask: frozenset[int]


def hold() -> Before:
    """Hold back every signal that is handed on. From here on nothing interrupts but SIGKILL."""
    # Where it is ignored, as by some parents, the end of a child cannot be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return Before(frozenset(int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)))


def restore(before: Before) -> None:
    """In the child: be as a program expects to be. What was held back for it arrives now."""
    for number in PYTHON_IGNORES:
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)


def wait(pid: int) -> int:
    """Hand signals on to a child until it ends; return its exit code, negative for a signal's number."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        got = signal.sigwaitinfo(WATCHED)
        by_terminal = got.si_signo in BY_TERMINAL and got.si_code == SI_KERNEL
        if got.si_signo != signal.SIGCHLD and not by_terminal:
            os.kill(pid, got.si_signo)
