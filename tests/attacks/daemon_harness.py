# SPDX-License-Identifier: Apache-2.0
"""The attacks' harness for cgpud: a simulated T4, and containers that are a listener and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.attacks.attack import numbers
from tests.attacks.harness import DAEMON, LIMIT, Seen, Tenant, Word
from tests.daemon.harness import PROBE, Daemon, next_line, piped
from tests.integration.commands import PATIENCE, Outcome, eventually


class DaemonRunning:
    """A program under a listener."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._printed: list[str] = []

    def line(self, start: str) -> str:
        return next_line(self._process, start, self._printed)

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def finish(self) -> Outcome:
        rest, _ = self._process.communicate("", timeout=PATIENCE)
        return Outcome(self._process.returncode, "".join(self._printed) + rest, "")


class DaemonTenant:
    """A slice, with a first process that does nothing."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self._daemon = daemon
        self._running: list[DaemonRunning] = []
        self.first = daemon.slice(seed, f"gpu=0:{LIMIT}", "hold")
        self.first.line("hold")

    def start(self, *command: Word) -> DaemonRunning:
        words = [str(word) for word in command]
        self._running.append(DaemonRunning(self._daemon.join(self.first, *words).process))
        return self._running[-1]

    def run(self, *command: Word) -> Outcome:
        return self.start(*command).finish()

    def end(self) -> None:
        """End all that runs in it; a process that has left its group ends with its input."""
        for running in self._running:
            running.kill()
            running.finish()
        self.first.finish()


class DaemonHarness:
    """One daemon, and the slices of one attack."""

    engine = DAEMON
    emulated = False
    pooled = 0

    def __init__(self, daemon: Daemon, scratch: Path) -> None:
        """Use a daemon that has one T4."""
        self._daemon = daemon
        self._tenants: list[DaemonTenant] = []
        self._outside: list[DaemonRunning] = []
        self.dev = str(daemon.run / "sim")
        self.scratch = str(scratch)

    def tenant(self) -> DaemonTenant:
        self._tenants.append(DaemonTenant(self._daemon, len(self._tenants) + 1))
        return self._tenants[-1]

    def outside(self, *command: Word) -> DaemonRunning:
        self._outside.append(DaemonRunning(piped([str(word) for word in command])))
        return self._outside[-1]

    def seen(self, tenant: Tenant) -> Seen:
        assert isinstance(tenant, DaemonTenant)
        return Seen(self._daemon.used(tenant.first), self._card())

    def _card(self) -> int:
        """Return what the card has given, as one hears it outside of all slices."""
        command = [str(PROBE), "--dev", self.dev, "info"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return numbers(printed)["used"]

    def refused(self) -> int:
        return numbers(self._daemon.read("stat"))["refused"]

    def drift(self) -> int:
        return int(self._daemon.read("0/drift"))

    def log(self) -> str:
        return self._daemon.log()

    def kill_engine(self) -> None:
        """Kill cgpud, which has to end at once, and wait for the next one."""
        pid = self._daemon.pid()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{pid}").exists(), "cgpud cannot be killed")
        eventually(lambda: self._daemon.pid() != pid, "cgpud does not come back")
        eventually((self._daemon.tree / "version").exists, "the tree does not come back")

    def path(self, path: Path) -> str:
        return str(path)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        eventually(condition, what)

    def clear(self) -> None:
        """End all slices and what runs outside, and wait until nothing is left of them."""
        for running in self._outside:
            running.kill()
            running.finish()
        self._outside.clear()
        for tenant in self._tenants:
            tenant.end()
        self._tenants.clear()
        eventually(lambda: self._daemon.instances() == [] and self._card() == 0, "something is left")
