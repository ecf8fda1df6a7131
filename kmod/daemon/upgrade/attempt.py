# SPDX-License-Identifier: Apache-2.0
"""An upgrade, by the daemon that runs: another program rehearses its start, then takes this one's place."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import time
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Any

from cgpu import __version__
from cgpu.errors import CgpuError, one_line
from cgpu.kmod.daemon.arguments import Arguments, worker_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from cgpu.kmod.daemon.program import Program
    from cgpu.kmod.daemon.upgrade.rehearsal import Running

log = logging.getLogger(__name__)

REHEARSE_S = 120.0  # a driver that is not in the table is checked in this time
ENDING_S = 1.0
PATIENCE_S = 15.0  # for a moment in which no call takes long
RETRY_S = 0.25
OUTPUT_MAX = 4096


class Progress(Enum):
    """Progress of an attempt."""

    REHEARSING = "the other program tries its start"
    WAITING = "for a moment without long calls"
    ENDED = "this program goes on"


class Attempt:
    """One attempt. Ask `progress` and `result`: after a success this program is not there any more."""

    def __init__(
        self, arguments: Arguments, running: Running, program: Program, number: str, *, rehearse: bool
    ) -> None:
        """Start the rehearsal. number: of this attempt. rehearse: end with that. Raises CgpuError."""
        self.progress = Progress.REHEARSING
        self.result: dict[str, Any] = {"number": number, "done": False}
        self.program = program
        self._rehearse = rehearse
        self._until = time.monotonic() + REHEARSE_S
        self._next = 0.0
        self._output = b""
        self._reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        command = program.command(*worker_arguments(arguments), "--rehearse", json.dumps(asdict(running)))
        try:
            self._child = subprocess.Popen(
                command,
                env=program.environment(),
                pass_fds=[running.state_fd],
                stdout=writer,
                stderr=writer,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._reader)
            raise CgpuError(f"{program.argv[0]}: cannot be started: {error.strerror}") from error
        finally:
            os.close(writer)
        log.info("upgrade: %s follows version %s", program.argv[0], __version__)

    def fileno(self) -> int:
        """A descriptor that is readable when the rehearsal has something to say, or has ended."""
        return self._reader

    def wait_s(self) -> float:
        """Return how long nothing has to be done."""
        due = self._next if self.progress is Progress.WAITING else self._until
        return max(0.0, due - time.monotonic())

    def on_output(self) -> bool:
        """Read what the rehearsal prints. True when it prints no more."""
        with contextlib.suppress(BlockingIOError):
            if text := os.read(self._reader, 1 << 16):
                self._output = (self._output + text)[-OUTPUT_MAX:]
                return False
            self._end_rehearsal()
            return True
        return False

    def step(self, become: Callable[[Program], None]) -> None:
        """Do what is due. become: goes on as a program; returns where calls of containers take too long."""
        now = time.monotonic()
        if self.progress is Progress.WAITING and now >= self._next:
            self._next = now + RETRY_S
            become(self.program)
        if self.progress is not Progress.ENDED and now > self._until:
            late = (
                "it was not ready in time"
                if self.progress is Progress.REHEARSING
                else "calls of containers do not end"
            )
            self.fail(f"{late}; try again, or: cgpu upgrade --cold when no sliced container runs")

    def fail(self, why: str) -> None:
        """Have this program go on, and say why."""
        self.result["why"] = why
        log.error("upgrade: version %s goes on: %s", __version__, why)
        self.progress = Progress.ENDED
        self._kill()

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._reader)

    def _end_rehearsal(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(ENDING_S)
        status = self._child.returncode
        self._kill()
        lines = self._output.decode(errors="replace").split("\n")
        last = one_line(next((line for line in reversed(lines) if line.strip()), ""))
        if status != 0:
            ended = "does not end" if status is None else f"ended with status {status}"
            why = last.removeprefix("cgpud: ") or f"{self.program.argv[0]}: {ended} before it was ready"
            self.fail(why)
            return
        self.result["ready"] = last
        log.info("upgrade: version %s is ready", last)
        self.progress = Progress.ENDED if self._rehearse else Progress.WAITING
        self._until = time.monotonic() + PATIENCE_S

    def _kill(self) -> None:
        # The number of the group is not given out again before its first process has been waited for.
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
