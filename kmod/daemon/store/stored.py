# SPDX-License-Identifier: Apache-2.0
"""Descriptors that outlive a daemon, by names in the store: state, listeners, the watch over open files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cgpu.kmod.daemon.engine import can_take_up
from cgpu.kmod.daemon.store.notify_socket import LISTENER, RESERVED

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket

STATES = ("state", "state-b")  # a second one only while one follows another
FILES = "files"


class Stored:
    """The store as this daemon knows it."""

    def __init__(self, notify: NotifySocket, handed: list[tuple[str, int]]) -> None:
        """handed: descriptors of the daemon before this one, ours now."""
        self._notify = notify
        self._handed = handed
        self.state_name = STATES[0]

    def is_in_use(self) -> bool:
        """Tell whether containers or reservations depend on the descriptors that were handed over."""
        return any(name.startswith(LISTENER) or name == RESERVED for name, _ in self._handed)

    def take(self, name: str) -> int:
        """Take the descriptor that was handed over under a name; -1: there is none."""
        found = [fd for held, fd in self._handed if held == name]
        self._handed = [(held, fd) for held, fd in self._handed if held != name]
        for extra in found[1:]:
            os.close(extra)
        return found[0] if found else -1

    def take_state(self) -> int:
        """Take the state that counts; -1: there is none."""
        found = {name: fd for name in STATES if (fd := self.take(name)) >= 0}
        # No call has been answered since there are two. The engine refuses a file that nobody can read.
        usable = [name for name, fd in found.items() if can_take_up(fd)]
        self.state_name = next(iter(usable or found), STATES[0])
        state = found.pop(self.state_name, -1)
        for name, fd in found.items():
            os.close(fd)
            self._notify.discard(name)
        # The other descriptors mean nothing without the state.
        if state < 0 and self._handed:
            self.drop()
        return state

    def take_rest(self) -> list[tuple[str, int]]:
        """Take the descriptors that were handed over and not taken yet."""
        rest, self._handed = self._handed, []
        return rest

    def drop(self) -> None:
        """Drop all descriptors that were handed over."""
        for name, fd in self.take_rest():
            os.close(fd)
            self._notify.discard(name)
        self.discard()

    def keep(self, engine: Engine, state_fd: int, files_fd: int) -> None:
        """Store what an engine has, where it is not what was taken from here; -1: there was nothing."""
        name = self.state_name
        if state_fd >= 0 and engine.state_fd != state_fd:
            self.state_name = STATES[1 - STATES.index(name)]
        if engine.state_fd != state_fd:
            self._notify.store(self.state_name, engine.state_fd)
        if self.state_name != name:
            self._notify.discard(name)
        if state_fd >= 0 and engine.files_fd == files_fd:
            return
        # The watch over exported files. The manager must not watch it: a wait takes the driver's events from
        # processes that have the files.
        self._notify.discard(FILES)
        if engine.files_fd >= 0:
            self._notify.store(FILES, engine.files_fd, watched=False)

    def mark_reservations(self, engine: Engine, *, waiting: bool) -> None:
        """Have the store's keeper stay for reservations alone, or not."""
        if waiting:
            self._notify.store(RESERVED, engine.state_fd, watched=False)
        else:
            self._notify.discard(RESERVED)

    def discard(self) -> None:
        """Remove everything from the store."""
        for name in (*STATES, FILES, RESERVED):
            self._notify.discard(name)
