# SPDX-License-Identifier: Apache-2.0
"""Polls for changes of which nothing notifies the daemon."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.listeners.listener import Listeners
    from cgpu.kmod.daemon.places import Places
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket

log = logging.getLogger(__name__)


class Watch:
    """A keeper's death, a driver that fails, lines that did not fit the pipe: each is logged once."""

    def __init__(self, engine: Engine, listeners: Listeners, notify: NotifySocket, places: Places) -> None:
        """Begin with all well."""
        self._engine = engine
        self._listeners = listeners
        # Started by a service manager, not by the keeper.
        self.managed = notify.address not in (None, str(places.keeper))
        self._parent = os.getppid()
        self._driver_error = 0
        self._lost_lines = 0

    def driver_error(self) -> str | None:
        """Say why the driver does not answer; None when it does."""
        return os.strerror(self._driver_error) if self._driver_error else None

    def check(self) -> None:
        """Check once; cheap enough for every second."""
        parent = os.getppid()
        if parent != self._parent and not self.managed:
            log.error("the keeper has died; running containers would not survive this daemon's end")
        self._parent = parent
        self._on_driver(self._engine.driver_error())
        lost_lines = self._engine.lost_lines()
        if lost_lines != self._lost_lines:
            self._lost_lines = lost_lines
            self._listeners.drop_gone()

    def _on_driver(self, error: int) -> None:
        if error and error != self._driver_error:
            log.error("the driver does not answer: %s; new containers are refused", os.strerror(error))
        elif self._driver_error and not error:
            log.info("the driver answers again")
        self._driver_error = error
