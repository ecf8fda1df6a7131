# SPDX-License-Identifier: Apache-2.0
"""Lines that the engine writes to a pipe: for the log, of events, and of listeners without a task."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from cgpu.events.append import append
from cgpu.events.event import fields_of_words
from cgpu.kmod.daemon import log as daemon_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

READ_BYTES = 1 << 16
LEVELS = {3: logging.ERROR, 4: logging.WARNING, 6: logging.INFO}


class EngineLines:
    """The pipe, of which the engine has the write end."""

    def __init__(self, events: Path, on_gone: Callable[[int], None]) -> None:
        """Make it. events: the event log. on_gone: is called for a listener that has no task left."""
        self._events = events
        self._on_gone = on_gone
        self._text = b""
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """A descriptor that is readable when lines have come."""
        return self._reader

    def handle(self) -> None:
        """Take the lines that have come."""
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._reader, READ_BYTES)
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            kind, _, rest = line.decode("utf-8", "replace").partition(" ")
            if kind == "gone":
                self._on_gone(int(rest))
            elif kind == "log":
                level, _, text = rest.partition(" ")
                log.log(LEVELS.get(int(level), logging.INFO), "%s", text)
            elif (fields := fields_of_words(f"{kind} {rest}")) is not None:
                self.record(str(fields.pop("event")), fields)

    def record(self, event: str, fields: Mapping[str, str | int]) -> None:
        """Write an event to the event log, and to the log."""
        append(event, fields, str(self._events))
        daemon_log.event(event, fields)
