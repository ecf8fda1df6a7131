# SPDX-License-Identifier: Apache-2.0
"""Programs run to their end, daemons, and waiting for what must happen."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ENFORCE = "CGPU_TEST_ENFORCE"  # off: the engines of tests enforce nothing
# Seconds after which a command never ends, and a thing never happens; pytest's own limit for a test is 300.
# Without enforcement tests have to fail, many of them by waiting.
PATIENCE, DEADLINE = (60.0, 30.0) if os.environ.get(ENFORCE) == "off" else (240.0, 120.0)
LOG_LINES = 5  # of a daemon that does not serve
Command = Sequence[str | Path]


@dataclass(frozen=True)
class Outcome:
    """What a finished command left behind."""

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
    """Run a command that has to succeed."""
    outcome = call(command, env, timeout)
    assert outcome.returncode == 0, f"{command}: {outcome.returncode}: {outcome.text}"
    return outcome


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


@dataclass
class Server:
    """A daemon process with its log, stopped by SIGTERM and then by SIGKILL."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, command: Command, log: Path) -> Server:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        return cls(process, log)

    def await_service(self, condition: Callable[[], object], what: str) -> None:
        """Wait until it serves. One that ends or never does is stopped; the error has the end of its log."""

        def serves() -> bool:
            code = self.process.poll()
            assert code is None, f"it ended with status {code}"
            return bool(condition())

        try:
            eventually(serves, what)
        except AssertionError as error:
            self.stop()
            said = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise AssertionError("\n".join([f"{what}: {error}", *said])) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
