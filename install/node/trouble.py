# SPDX-License-Identifier: Apache-2.0
"""Containers whose trouble nobody sees: out of the event log, and of what the container engines list.

The engines are asked only where the log names a container that may be in trouble.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cgpu import paths
from cgpu.client.directory import directory_of
from cgpu.errors import CgpuError
from cgpu.events.event import Event
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


def gather(cgroups: Iterable[str]) -> tuple[Trouble, ...]:
    """Return the containers in trouble. cgroups: those that have processes. Raises CgpuError."""
    kernel = KernelLog(paths.KERNEL_LOG)
    try:
        events = LogFile(paths.EVENTS).poll() + kernel.poll()
    finally:
        kernel.close()
    # The engine's lines have no names; the hook has written these.
    suspects = find(list(Story(lambda _: {}).follow(events)), "\n".join(cgroups))
    return judge(suspects, list_containers() if suspects else {})


def find(events: Collection[Event], cgroups: str) -> list[Event]:
    """Return the last event of each container that may be in trouble. cgroups: lines of those in use."""
    last = {
        event.id: event
        for event in sorted(events, key=lambda event: event.time)
        if event.id and event.event in ("started", "ended", REFUSED, STRANDED)
    }
    return [
        event
        for event in last.values()
        if (event.event == REFUSED and not event.pod)
        or (event.event == STRANDED and _names(cgroups, event.id))
    ]


def _names(cgroups: str, container: str) -> bool:
    """Return whether a cgroup has the name that runtimes make of a container's id."""
    return re.search(rf"(^|[/-]){re.escape(container)}(\.scope)?(/|$)", cgroups, re.MULTILINE) is not None


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
    if not all(map(NAME.fullmatch, words)):
        return "end it, and start it anew"
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
