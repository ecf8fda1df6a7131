# SPDX-License-Identifier: Apache-2.0
"""A command in the guest, while it runs and after."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.vm.harness import channel
from tests.vm.harness.channel import Channel

KILL_GRACE = 30.0  # seconds in which a killed process must be gone, or the guest is not well
SHOWN = 4000  # characters of output in a message


class MachineDiedError(Exception):
    """The guest has ended or does not answer."""


class CommandError(AssertionError):
    """A command did not do what the test relied on."""


@dataclass(frozen=True)
class Finished:
    """Results of a finished command. A negative returncode is the signal that ended it."""

    args: tuple[str, ...]
    returncode: int
    stdout_bytes: bytes
    stderr_bytes: bytes

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    def check(self) -> Finished:
        if self.returncode != 0:
            raise CommandError(f"{describe(self.args)}: exit {self.returncode}:\n{self.text[-SHOWN:]}")
        return self


def describe(argv: Sequence[str]) -> str:
    line = " ".join(argv)
    return line if len(line) <= 300 else f"{line[:300]}…"


class Process:
    """A command that was started in the guest."""

    def __init__(
        self,
        link: Channel,
        job: int,
        argv: Sequence[str],
        why_ended: Callable[[], str | None],
        end_silent: Callable[[], str],
    ) -> None:
        """Record what a job does.

        `why_ended` says what became of the machine, None while it lives; `end_silent` ends one that does not
        answer, and says what it was at.
        """
        self.link = link
        self.job = job
        self.args = tuple(argv)
        self.why_ended = why_ended
        self.end_silent = end_silent
        self.changed = threading.Condition()
        self.out = bytearray()
        self.err = bytearray()
        self.started: int | None = None
        self.status: int | None = None

    def receive(self, kind: int, payload: bytes) -> None:
        with self.changed:
            if kind == channel.OUT:
                self.out += payload
            elif kind == channel.ERR:
                self.err += payload
            elif kind == channel.STARTED:
                self.started = channel.NUMBER.unpack(payload)[0]
            elif kind == channel.EXIT:
                self.status = os.waitstatus_to_exitcode(channel.NUMBER.unpack(payload)[0])
            self.changed.notify_all()

    def wake(self) -> None:
        """Let those who wait see that the machine has ended."""
        with self.changed:
            self.changed.notify_all()

    def until(self, condition: Callable[[], object], timeout: float) -> bool:
        """Wait for a condition over this process; say whether it came true."""
        end = time.monotonic() + timeout
        with self.changed:
            while not condition():
                why = self.why_ended()
                if why is not None:
                    raise MachineDiedError(f"{describe(self.args)}: {why}")
                if (
                    not self.changed.wait(min(1.0, max(0.0, end - time.monotonic())))
                    and time.monotonic() >= end
                ):
                    return False
        return True

    @property
    def pid(self) -> int:
        """Return its process number in the guest's first pid namespace."""
        if not self.until(lambda: self.started is not None or self.status is not None, KILL_GRACE):
            raise MachineDiedError(f"{describe(self.args)}: the guest does not start it\n{self.end_silent()}")
        assert self.started is not None, self.err.decode(errors="replace")
        return self.started

    @property
    def running(self) -> bool:
        """Say whether it has not ended yet, as far as is known here."""
        return self.status is None

    def write(self, data: bytes | str) -> None:
        self.link.send_input(self.job, data.encode() if isinstance(data, str) else data)

    def close_input(self) -> None:
        self.link.send(self.job, channel.INPUT)

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.link.send(self.job, channel.KILL, channel.NUMBER.pack(number))

    def await_output(self, text: str, timeout: float = 30) -> None:
        if not self.until(lambda: text.encode() in self.out or self.status is not None, timeout):
            raise CommandError(
                f"{describe(self.args)}: never printed {text!r}:\n{self.finished().text[-SHOWN:]}"
            )
        if text.encode() not in self.out:
            raise CommandError(
                f"{describe(self.args)}: ended with {self.status} without {text!r}:\n"
                f"{self.finished().text[-SHOWN:]}"
            )

    def wait(self, timeout: float = 60) -> Finished:
        """Wait for its end; kill it and fail when it takes too long."""
        if not self.until(lambda: self.status is not None, timeout):
            self.kill()
            if not self.until(lambda: self.status is not None, KILL_GRACE):
                why = f"ran past {timeout:.0f} s and cannot be killed"
                raise MachineDiedError(f"{describe(self.args)}: {why}\n{self.end_silent()}")
            raise CommandError(
                f"{describe(self.args)}: killed after {timeout:.0f} s:\n{self.finished().text[-SHOWN:]}"
            )
        return self.finished()

    def finish(self, timeout: float = 60) -> Finished:
        self.close_input()
        return self.wait(timeout)

    def stop(self, timeout: float = 30) -> Finished:
        self.kill()
        return self.wait(timeout)

    def finished(self) -> Finished:
        """Return what is known by now."""
        with self.changed:
            status = self.status if self.status is not None else -signal.SIGKILL
            return Finished(self.args, status, bytes(self.out), bytes(self.err))
