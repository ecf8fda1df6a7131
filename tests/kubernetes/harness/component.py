# SPDX-License-Identifier: Apache-2.0
"""A process of the cluster: started, killed and started again, with one log for all of its lives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.integration.commands import eventually

SERVES_S = 60
ENDS_S = 20
LOG_LINES = 15  # of a process that does not serve


class Component:
    """One process. ready: whether it serves, asked until it does."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
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

    def start(self) -> Component:
        """Start it; return once it serves. The error has the end of its log."""
        assert not self.runs, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._env
            )
        try:
            eventually(self._serves, f"{self.name} serves", SERVES_S)
        except AssertionError as error:
            said = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise AssertionError("\n".join([str(error), *said])) from error
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


def listens(port: int) -> Callable[[], bool]:
    """Return the question whether somebody accepts connections on a port of this machine."""

    def ask() -> bool:
        with socket.socket() as client:
            client.settimeout(1)
            return client.connect_ex(("127.0.0.1", port)) == 0

    return ask
