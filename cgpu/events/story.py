# SPDX-License-Identifier: Apache-2.0
"""Facts that several events give together: a container's name, and how long an ended slice lived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cgpu import suggest
from cgpu.errors import CgpuError, show
from cgpu.events.event import KINDS, NAMED, Event
from cgpu.smi.names import Owner, owner

MOST_NAMES: Final = 10_000
NEW_S: Final = 10.0
# Keys of --filter, with the values of each.
FILTERS: Final = {
    "container": "a name, or an id or the begin of it",
    "pod": "a pod, or NAMESPACE/POD",
    "gpu": "an index, or a UUID or the begin of it",
    "event": ", ".join(KINDS),
}


class Story:
    """Events in their order."""

    def __init__(self, ask: Callable[[set[str]], Mapping[str, str]]) -> None:
        """ask: returns the names of those containers that run."""
        self._ask = ask
        self._names: dict[str, Owner] = {}
        self._started: dict[tuple[str, int], datetime] = {}

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield what is to be shown, with names and lifetimes."""
        ordered = sorted(events, key=lambda event: event.time)
        self._learn(ordered)
        for event in ordered:
            if event.event != NAMED:
                yield self._named(self._lived(event))

    def _learn(self, events: Sequence[Event]) -> None:
        for one in events:
            if one.event == NAMED:
                self._names[one.id] = Owner(one.container, one.pod, one.namespace, one.name, one.id)
        # One that its engine does not list by now it will not: `cgpu run` has none.
        new = datetime.now(UTC) - timedelta(seconds=NEW_S)
        unknown = {one.id for one in events if one.id}
        unknown |= {container for (container, _), since in self._started.items() if since > new}
        unknown -= self._names.keys()
        for container, name in (self._ask(unknown) if unknown else {}).items():
            self._names[container] = owner(container, name)
        while len(self._names) > MOST_NAMES:
            del self._names[next(iter(self._names))]

    def _named(self, event: Event) -> Event:
        known = self._names.get(event.id)
        if known is None or event.called:
            return event
        inner = known.container if known.pod else ""
        return replace(event, name=known.name, pod=known.pod, namespace=known.namespace, container=inner)

    def _lived(self, event: Event) -> Event:
        key = event.id, event.gpu
        if event.event == "started":
            self._started[key] = event.time
        since = self._started.pop(key, None) if event.event == "ended" else None
        if since is None:
            return event
        lived = round((event.time - since).total_seconds() * 1e9)
        return replace(event, figures={**event.figures, "lived": max(0, lived)})


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events are wanted: of each key one of its values, with all keys."""

    wanted: Mapping[str, tuple[str, ...]]

    def match(self, event: Event) -> bool:
        """Tell whether an event is wanted."""
        return all(any(_fits(key, value, event) for value in values) for key, values in self.wanted.items())


def filters(words: Sequence[str]) -> Filters:
    """Return what the words KEY=VALUE of the command line want. Raises CgpuError."""
    wanted: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise CgpuError(f"--filter {show(word)}: expected KEY=VALUE, such as container=web")
        if key not in FILTERS:
            raise CgpuError(f"--filter {show(word)}: {suggest.expected(key, list(FILTERS), '')}")
        if key == "event" and value not in KINDS:
            every = f"expected {suggest.one_of(KINDS)}"
            raise CgpuError(f"--filter {show(word)}: {suggest.expected(value, list(KINDS), every)}")
        wanted[key] = (*wanted.get(key, ()), value)
    return Filters(wanted)


def _fits(key: str, value: str, event: Event) -> bool:
    if key == "event":
        return event.event == value
    if key == "gpu":
        return (
            str(event.gpu) == value
            if value.isdecimal()
            else bool(event.uuid) and event.uuid.startswith(value)
        )
    if key == "pod":
        return bool(event.pod) and value in (event.pod, f"{event.namespace}/{event.pod}")
    names = {event.name, event.called, event.container} - {""}
    return value in names or (bool(event.id) and event.id.startswith(value))
