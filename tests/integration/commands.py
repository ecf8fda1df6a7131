# SPDX-License-Identifier: Apache-2.0
"""Programs run to their end, daemons, and waiting for what must happen."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ENFORCE = "CGPU_TEST_ENFORCE"  # off: the engines of tests enforce nothing
# Seconds after which a command never ends, and a thing never happens; pytest's own limit for a test is 300.
# Without enforcement tests have to fail, many of them by waiting.
PATIENCE, DEADLINE = (60.0, 30.0) if os.environ.get(ENFORCE) == "off" else (240.0, 120.0)
LOG_LINES = 15  # of a server that does not serve
ENDS_S = 30
Command = Sequence[str | Path]


@dataclass(frozen=True)
class Outcome:
    """Results of a finished command."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr


def call(command: Command, env: Mapping[str, str] | None = None, timeout: float = PATIENCE) -> Outcome:
    """Run a command to its end and keep what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        env=None if env is None else {**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def must(command: Command, env: Mapping[str, str] | None = None, timeout: float = PATIENCE) -> Outcome:
    outcome = call(command, env, timeout)
    assert outcome.returncode == 0, f"{command}: {outcome.returncode}: {outcome.text}"
    return outcome


def message(outcome: Outcome) -> str:
    """Return the last line of the wrapper or the hook on stderr. The start must have failed."""
    lines: list[str] = re.findall(r".*opencgpu: .*", outcome.stderr)
    assert outcome.returncode != 0, outcome.text
    assert lines, outcome.text
    return lines[-1]


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made: a second process waits, and finds everything made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def eventually(
    condition: Callable[[], object],
    what: str,
    deadline: float = DEADLINE,
    instead: Callable[[], object] | None = None,
) -> None:
    """Wait until a condition holds; fail by name when it never does, and with what there is instead."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    seen = f"; instead: {instead()}" if instead else ""
    raise AssertionError(f"never happened within {deadline:.0f} s: {what}{seen}")


class Server:
    """A process that serves: started, killed and started again, with one log for all of its lives.

    ready: whether it serves, asked until it does.
    """

    def __init__(
        self,
        name: str,
        command: Command,
        log: Path,
        ready: Callable[[], object] = lambda: True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._ready = ready
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it; return once it serves. One that never does is stopped; the error ends with its log."""
        assert not self.runs, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._env
            )
        try:
            eventually(self._serves, f"{self.name} serves")
        except AssertionError as error:
            self.stop()
            said = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise AssertionError("\n".join([str(error), *said])) from error
        except BaseException:
            self.stop()
            raise
        return self

    def _serves(self) -> bool:
        assert self.runs, f"{self.name} has ended"
        return bool(self._ready())

    def stop(self) -> None:
        """Ask it to end, as systemd does, and kill it if it does not."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def restart(self) -> None:
        self.stop()
        self.start()

    def lines(self, text: str) -> list[str]:
        """Return the lines of its log that have a text."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if text in line]
