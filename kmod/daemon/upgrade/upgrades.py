# SPDX-License-Identifier: Apache-2.0
"""The upgrades of a daemon that runs: it becomes another program, which has rehearsed its start."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.upgrade import in_place
from cgpu.kmod.daemon.upgrade.real_time import give_real_time_back, take_real_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.program import Program

log = logging.getLogger(__name__)

PATIENCE_S = 15.0  # for a moment in which no call takes long
RETRY_S = 0.25
PAUSE_MS = 60  # for calls that are under way
STEP_MS = 10
LATE = "calls of containers do not end; try again, or: cgpu upgrade --cold when no sliced container runs"


class Upgrades:
    """The program that waits to take over, if any, and how the last upgrade went."""

    def __init__(
        self,
        arguments: Arguments,
        engine: Engine,
        notify: str,
        may_begin: Callable[[], bool],
        finish: Callable[[], dict[str, int] | None],
    ) -> None:
        """notify: NOTIFY_SOCKET of the next program. may_begin: whether no message has come in part.

        finish: ends all work while the engine pauses, and returns the descriptors that the next program
        needs, by name; None: this one is to end.
        """
        self._arguments = arguments
        self._engine = engine
        self._notify = notify
        self._may_begin = may_begin
        self._finish = finish
        self._program: Program | None = None
        self._number = ""
        self._next = self._until = 0.0
        self.last: dict[str, Any] | None = None

    def is_under_way(self) -> bool:
        """Tell whether a program waits to take over."""
        return self._program is not None

    def follow(self, before: in_place.Before) -> None:
        """Note that calls are answered again, by this program."""
        pause_ms = round((time.monotonic() - before.since) * 1000, 1)
        # Calls that have waited are answered first, by threads that have begun by now.
        take_real_time()
        self.last = {"number": before.number, "done": True, "from": before.version, "pause_ms": pause_ms}

    def begin(self, program: Program, number: str) -> None:
        """Have a program take over at the next moment without long calls. Raises CgpuError."""
        if self._program is not None:
            raise CgpuError("another upgrade is under way; see: cgpud --status")
        self._program, self._number = program, number
        self._next = time.monotonic()
        self._until = self._next + PATIENCE_S
        log.info("upgrade: %s follows version %s", program.argv[0], __version__)

    def wait_s(self, longest_s: float) -> float:
        """Return how long nothing has to be done."""
        return longest_s if self._program is None else max(0.0, self._next - time.monotonic())

    def step(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if self._program is None or now < self._next:
            return
        self._next = now + RETRY_S
        self._become(self._program)
        if now > self._until:
            self.last = {"number": self._number, "done": False, "why": LATE}
            self._program = None
            log.error("upgrade: version %s goes on: %s", __version__, LATE)

    def _become(self, program: Program) -> None:
        """Go on as another program; return where that has to wait: for a message, or for a call's end."""
        since = time.monotonic()
        if not self._may_begin():
            return
        take_real_time()
        in_place.hold_signals()
        descriptors = self._finish() if self._pause(since) else None
        if descriptors is None:
            self._engine.resume()
            in_place.take_signals()
            give_real_time_back()
            return
        before = in_place.Before(
            __version__, str(self._engine.status()["driver"]), self._number, since, program
        )
        in_place.execute(before, worker_arguments(self._arguments), self._notify, descriptors)

    def _pause(self, since: float) -> bool:
        while not self._engine.pause(STEP_MS):
            if time.monotonic() - since > PAUSE_MS / 1000:
                return False
        return True
