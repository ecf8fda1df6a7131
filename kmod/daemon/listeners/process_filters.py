# SPDX-License-Identifier: Apache-2.0
"""Whether the processes that runtimes start in containers have the engine's filter.

An inspection takes up to a second where the process does not stand still, so the thread that serves the tree
and the sockets does not wait for it. Each container has a few inspections at once; further processes count as
not inspected.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from typing import TYPE_CHECKING

from cgpu.client.directory import group_named
from cgpu.kmod.daemon.engine import Container
from cgpu.process_identity import cgroup_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from cgpu.kmod.daemon.engine import Engine

log = logging.getLogger(__name__)

INSPECTIONS_OF_CONTAINER = 4
SHARED_GROUP = "its cgroup is not its own"
LEAST_ID = 32  # characters of an id that names a cgroup beyond doubt


class ProcessFilters:
    """Inspects processes, and ends those that lack the filter."""

    def __init__(self, engine: Engine, is_shared: Callable[[], bool]) -> None:
        """Begin with none. is_shared: whether the node's users do not trust each other."""
        self._engine = engine
        self._is_shared = is_shared
        self._blind = False  # it was logged that filters cannot be inspected
        self._inspections: list[tuple[str, threading.Thread]] = []  # each with its container's id

    def inspect(self, container: Container, pid: int) -> None:
        """Begin to inspect a process that a runtime has started. Its listener must be attached.

        A call that waits for an answer keeps the process from standing still.
        """
        self._inspections = [one for one in self._inspections if one[1].is_alive()]
        if sum(1 for found, _ in self._inspections if found == container.id) >= INSPECTIONS_OF_CONTAINER:
            self._judge_unknown(container, pid, os.strerror(errno.EAGAIN))
            return
        thread = threading.Thread(target=self._inspect, args=(container, pid), daemon=True)
        thread.start()
        self._inspections.append((container.id, thread))

    def end_refused(self, container: Container | None, container_id: str, pid: int) -> str:
        """End a process whose listener is refused, and return the log's words about it.

        A number that is not one of the container's cgroup is left alone: it may be another's by now.
        """
        found = container or unregistered(container_id, pid)
        if not pid or found is None or (found.cgroup == "/" and pid != found.pid):
            return ""
        try:
            self._engine.end_process(pid, found)
        except OSError as error:
            return f"; {_name(found, pid)} cannot be ended: {error.strerror}"
        return f"; {_name(found, pid)} was ended"

    def await_inspections(self) -> None:
        """Wait for the inspections that are under way: they use the engine."""
        for _, thread in self._inspections:
            thread.join()

    def _inspect(self, container: Container, pid: int) -> None:
        # Only a group of its own tells whether the number is still that of a process of the container.
        if container.cgroup == "/" and pid != container.pid:
            self._say_unknown(container, SHARED_GROUP)
            return
        try:
            if self._engine.is_filtered(pid, container):
                return
        except OSError as error:
            if error.errno == errno.EACCES:
                self._judge_unknown(container, pid, "cgpud has a filter itself", blind=True)
            elif error.errno != errno.ESRCH:
                self._judge_unknown(container, pid, str(error.strerror))
            return
        log.error(
            "container %s: %s does not have the engine's filter, and was ended: the low-level "
            "runtime has put another one there",
            container.id,
            _name(container, pid),
        )

    def _judge_unknown(self, container: Container, pid: int, why: str, *, blind: bool = False) -> None:
        """End a process of unknown filter where users do not trust each other; else log it."""
        if not self._is_shared():
            if not (blind and self._blind):
                self._say_unknown(container, why)
            self._blind = self._blind or blind
            return
        try:
            self._engine.end_process(pid, container)
        except OSError as error:
            if error.errno != errno.ESRCH:
                self._say_unknown(container, f"{why}; it cannot be ended: {error.strerror}")
            return
        log.error(
            "container %s: %s was ended (shared_node: true): its filter cannot be looked at (%s)",
            container.id,
            _name(container, pid),
            why,
        )

    def _say_unknown(self, container: Container, why: str) -> None:
        log.warning("container %s: its filter cannot be looked at (%s)", container.id, why)


def _name(container: Container, pid: int) -> str:
    return "its first process" if pid == container.pid else f"process {pid}, which was started in it,"


def unregistered(container_id: str, pid: int) -> Container | None:
    """Return the container that a process's cgroup names; None where the cgroup is not of that name."""
    if len(container_id) < LEAST_ID:
        return None
    text = cgroup_text(pid)
    if not text:
        return None
    # A group may have any name but with "\n": splitlines() would cut at what else ends a line.
    for line in text.removesuffix("\n").split("\n"):
        _, controllers, path = line.split(":", 2)
        group = group_named(path, container_id)
        if group:
            return Container(container_id, f"{controllers}:{group}" if controllers else group, 0, 0, 0)
    return None
