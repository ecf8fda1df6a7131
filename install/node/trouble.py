# SPDX-License-Identifier: Apache-2.0
"""Containers whose trouble nobody sees: out of the event log, and of what the container engines list.

The engines are asked only where the log names a container that may be in trouble.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cgpu import paths
from cgpu.client.directory import directory_of, group_named
from cgpu.errors import CgpuError
from cgpu.events.event import Event, last_of_each
from cgpu.events.sources import KernelLog, LogFile
from cgpu.events.story import Story
from cgpu.runtime_config.engines.engine import by_state
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.smi.names import by_id

REFUSED = "refused"
STRANDED = "stranded"
# Engines whose command takes `start` and `restart`. The kubelet starts another container by itself.
COMMANDS = ("docker", "podman")
# Annotations may say anything: a word of a command is a name, and no option.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Trouble:
    """A container that stays exited as its restart was refused, or that is stranded.

    name: as its engine says, or the begin of its id. fix: the command that helps.
    """

    kind: str
    id: str
    name: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Row:
    """A container as an engine lists it. ended: the engine says that no process is left."""

    engine: str
    name: str
    ended: bool


def gather(cgroups: Collection[str]) -> tuple[Trouble, ...]:
    """Return the containers in trouble. cgroups: those that have processes. Raises CgpuError."""
    kernel = KernelLog(paths.KERNEL_LOG)
    try:
        events = LogFile(paths.EVENTS).poll() + kernel.poll()
    finally:
        kernel.close()
    # The engine's lines have no names; the hook has written these.
    suspects = find(Story(lambda _: {}).follow(events), cgroups)
    return judge(suspects, list_containers() if suspects else {})


def find(events: Iterable[Event], cgroups: Collection[str]) -> list[Event]:
    """Return the last event of each container that may be in trouble. cgroups: those that have processes."""
    return [
        event
        for event in last_of_each(events, "started", "ended", REFUSED, STRANDED).values()
        if (event.event == REFUSED and not event.pod)
        or (event.event == STRANDED and any(group_named(cgroup, event.id) for cgroup in cgroups))
    ]


def judge(suspects: Iterable[Event], rows: Mapping[str, Row]) -> tuple[Trouble, ...]:
    """Return the trouble of those that are in it. rows: the engines' containers by id.

    A container that was never started is no news to who has started it; one that had ended has come to be
    started by its engine.
    """
    found = []
    for event in suspects:
        row = rows.get(event.id, Row("", "", ended=False))
        if event.event == STRANDED or row.ended:
            name = event.called or row.name or directory_of(event.id)
            message = event.message.removeprefix(f"container {event.id}: ")
            found.append(Trouble(event.event, event.id, name, message, _fix(event, row, name)))
    return tuple(found)


def _fix(event: Event, row: Row, name: str) -> str:
    words = (event.namespace, event.pod) if event.pod else (name,)
    if all(map(NAME.fullmatch, words)):
        if event.pod:
            return f"kubectl delete pod --namespace {event.namespace} {event.pod}"
        if row.engine in COMMANDS:
            return f"{row.engine} {'restart' if event.event == STRANDED else 'start'} {name}"
    return "end it, and start it anew"


def list_containers() -> dict[str, Row]:
    """Return all containers of the engines that answer at once. Docker's protocol is podman's, too."""
    found: dict[str, Row] = {}
    for engine in ENGINES.values():
        for ask in engine.running(ended=True):
            try:
                listed = ask()
            except CgpuError:
                continue
            ended = by_state(listed, "Id", "State")
            found |= {
                one: Row(engine.name, name, ended.get(one, False)) for one, name in by_id(listed).items()
            }
    return found
