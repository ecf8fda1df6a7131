# SPDX-License-Identifier: Apache-2.0
"""Containers that run on without their GPU, because what served it is gone: the event log names them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cgpu.kmod.daemon.listeners.process_filters import unregistered
from cgpu.process_identity import cgroup_text, living_start_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cgpu.kmod.daemon.engine import Container
    from cgpu.kmod.daemon.simulate import Server

MESSAGE = "it runs on without its GPU: {}; start it anew"
CARDS_GONE = MESSAGE.format("the server of the simulated cards has ended")
FORCED = MESSAGE.format("cgpud was stopped by force")
STATE_GONE = MESSAGE.format("cgpud and what kept its descriptors have ended")


def find(
    events: Path, registered: Mapping[str, Container], server: Server | None
) -> Iterator[tuple[str, str]]:
    """Yield the id of each such container that the event log does not name yet, and what to say of it.

    server: of simulated cards. A container that is older has files of another one open. Raises CgpuError
    where the log cannot be read.
    """
    last = _last_events(events)
    for one in registered.values():
        started = living_start_time(one.pid)
        if last.get(one.id) != "stranded" and server is not None and 0 < started < server.started:
            yield one.id, CARDS_GONE
    groups = {pid: cgroup_text(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
    for identity, kind in last.items():
        if kind == "started" and identity not in registered:
            # The log may name hundreds that ended while no cgpud ran.
            pids = (pid for pid, text in groups.items() if identity in text)
            if any(unregistered(identity, pid) for pid in pids):
                yield identity, STATE_GONE


def _last_events(events: Path) -> dict[str, str]:
    """Return what became of each container last, by its id."""
    # Here, as a daemon that follows another, for which calls wait, does not ask.
    from cgpu.events.event import last_of_each
    from cgpu.events.sources import LogFile

    last = last_of_each(LogFile(str(events)).poll(), "started", "ended", "stranded")
    return {identity: event.event for identity, event in last.items()}
