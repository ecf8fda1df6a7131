# SPDX-License-Identifier: Apache-2.0
"""The upgrades of a daemon that runs, one at a time: it ends when it has become the other program."""

from __future__ import annotations

import contextlib
import selectors
import time
from typing import TYPE_CHECKING, Any

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import program as programs
from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.upgrade import in_place
from cgpu.kmod.daemon.upgrade.attempt import Attempt, Progress
from cgpu.kmod.daemon.upgrade.real_time import give_real_time_back, take_real_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.program import Program
    from cgpu.kmod.daemon.upgrade.rehearsal import Running

PAUSE_MS = 60  # for calls that are under way
STEP_MS = 10


class Upgrades:
    """The attempt that is under way, and how the last one went."""

    def __init__(
        self,
        arguments: Arguments,
        engine: Engine,
        notify: str,
        selector: selectors.BaseSelector,
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
        self._selector = selector
        self._may_begin = may_begin
        self._finish = finish
        self._attempt: Attempt | None = None
        self.last: dict[str, Any] | None = None

    def is_under_way(self) -> bool:
        """Tell whether an attempt is."""
        return self._attempt is not None

    def follow(self, before: in_place.Before) -> None:
        """Note that calls are answered again, by this program."""
        pause_ms = round((time.monotonic() - before.since) * 1000, 1)
        # Calls that have waited are answered first, by threads that have begun by now.
        take_real_time()
        self.last = {"number": before.number, "done": True, "from": before.version, "pause_ms": pause_ms}

    def begin(self, request: dict[str, Any], running: Running) -> None:
        """Have another program rehearse its start. Raises CgpuError."""
        if self._attempt is not None:
            raise CgpuError("another upgrade is under way; see: cgpu upgrade --dry-run")
        program, number = programs.of(request), str(request.get("number", ""))
        rehearse = request.get("rehearse") is True
        self._attempt = Attempt(self._arguments, running, program, number, rehearse=rehearse)
        self._selector.register(self._attempt, selectors.EVENT_READ, self._on_rehearsal)

    def wait_s(self, longest_s: float) -> float:
        """Return how long nothing has to be done."""
        return longest_s if self._attempt is None else min(longest_s, self._attempt.wait_s())

    def step(self) -> None:
        """Do what is due."""
        attempt = self._attempt
        if attempt is None:
            return
        attempt.step(self._become)
        if attempt.progress is Progress.ENDED:
            self.last = attempt.result
            with contextlib.suppress(KeyError):
                self._selector.unregister(attempt)
            attempt.close()
            self._attempt = None

    def end(self) -> None:
        """Give up the attempt that is under way: the daemon stops."""
        if self._attempt is not None:
            self._attempt.fail("cgpud stops")

    def _on_rehearsal(self) -> None:
        assert self._attempt is not None
        if self._attempt.on_output():
            self._selector.unregister(self._attempt)

    def _become(self, program: Program) -> None:
        """Go on as another program; return where that has to wait: for a message, or for a call's end."""
        assert self._attempt is not None
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
        driver, number = str(self._engine.status()["driver"]), str(self._attempt.result["number"])
        before = in_place.Before(__version__, driver, number, since, program)
        in_place.execute(before, worker_arguments(self._arguments), self._notify, descriptors)

    def _pause(self, since: float) -> bool:
        while not self._engine.pause(STEP_MS):
            if time.monotonic() - since > PAUSE_MS / 1000:
                return False
        return True
