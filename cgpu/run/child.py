# SPDX-License-Identifier: Apache-2.0
"""The child that becomes the command: it waits until its slice is registered, or ends.

Signals for the command are held back while its slice is made, then handed on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from cgpu.errors import CgpuError, one_line, show
from cgpu.files import read_fd
from cgpu.run import nodes

if TYPE_CHECKING:
    from cgpu.run.supervision import Supervision

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
FAILED, CANNOT_RUN, NOT_FOUND = 125, 126, 127
GO = b"\1"
MAX_REPORT = 4096


def hold() -> set[int]:
    """Hold back every signal that is handed on; return the mask before. Only SIGKILL interrupts from here."""
    # A child whose parent ignores SIGCHLD, as some do, cannot be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)}


def restore(mask: set[int]) -> None:
    """In the child: restore the signal state that a program expects. Blocked signals arrive now."""
    for number in PYTHON_IGNORES:
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


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


class StartError(CgpuError):
    """The command did not come to run. status: the exit status that tells so."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps of the child before it becomes the command. supervision: under the daemon engine only."""

    command: tuple[str, ...]
    binds: tuple[nodes.Bind, ...] = ()
    supervision: Supervision | None = None


class Child:
    """The child, seen from its parent."""

    def __init__(self, pid: int, go: int, report: int) -> None:
        """Keep its number, the pipe that releases it and the pipe on which it says what failed."""
        self.pid = pid
        self._go = go
        self._report = report
        self._ended = False

    def release(self) -> None:
        """Let it become the command. Without this call it never does."""
        # The child may have been killed; waiting for it will show that.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, GO)

    def wait(self) -> int:
        """Return the command's exit status once it has ended. Raises StartError when it never ran."""
        code = wait(self.pid)
        self._ended = True
        words = read_fd(self._report, MAX_REPORT).decode("utf-8", "replace").split(" ", 1)
        if len(words) == 2 and words[0].isdigit():
            raise StartError(words[1], int(words[0]))
        return code if code >= 0 else 128 - code

    def close(self) -> None:
        """End it if it has not ended, and give its pipes back."""
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._ended = True
        os.close(self._go)
        os.close(self._report)


def start(plan: Plan, mask: set[int]) -> Child:
    """Fork. The child does nothing until it is released. Raises CgpuError."""
    go_reader, go = os.pipe()
    report, report_writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        for fd in (go_reader, go, report, report_writer):
            os.close(fd)
        raise CgpuError(
            f"{show(plan.command[0])}: no process can be made for it ({error.strerror})"
        ) from error
    if pid == 0:
        os.close(go)
        os.close(report)
        _live(plan, mask, go_reader, report_writer)
    os.close(go_reader)
    os.close(report_writer)
    return Child(pid, go, report)


def _live(plan: Plan, mask: set[int], go: int, report: int) -> NoReturn:
    status, message = FAILED, ""
    try:
        restore(mask)
        # The end of the pipe means that the parent has ended before it registered anything.
        if os.read(go, 1) == GO:
            _become(plan)
    except StartError as error:
        status, message = error.status, str(error)
    except CgpuError as error:
        message = str(error)
    finally:
        # Never return into the parent's code, also after an error here.
        _say(report, status, message or f"unexpected {sys.exception()!r} before the command was started")
        os._exit(status)


def _say(report: int, status: int, message: str) -> None:
    text = f"{status} {one_line(message)}".encode("ascii", "replace")[:MAX_REPORT]
    with contextlib.suppress(OSError):
        os.write(report, text)


def _become(plan: Plan) -> NoReturn:
    if plan.binds:
        nodes.give(plan.binds)
    if plan.supervision is not None:
        plan.supervision.begin()
    name = plan.command[0]
    try:
        os.execvp(name, plan.command)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StartError(
            f"{show(name)}: {error.strerror}: expected a program's path, or its name on PATH", NOT_FOUND
        ) from error
    except (OSError, ValueError) as error:
        raise StartError(f"{show(name)}: cannot be run ({error})", CANNOT_RUN) from error
