# SPDX-License-Identifier: Apache-2.0
"""Events, read from lines of the event log and of the kernel's log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from cgpu.client.tree import is_index
from cgpu.errors import one_line

MAX_NUMBER: Final = 1 << 64
MAX_NAME: Final = 253
# Words for each event. The order is that of the documents.
KINDS: Final = {
    "started": "a container has a slice of a GPU",
    "refused": "a container was refused its slice",
    "ended": "a slice has ended",
    "gained": "a container took memory of a GPU past the engine",
    "stranded": "a container runs on without its GPU",
    "lost": "the driver has lost a GPU",
    "back": "the driver answers for a lost GPU again",
    "ready": "cgpud has started",
    "upgraded": "cgpud goes on as another version",
    "stopped": "cgpud has stopped",
}
# Says what a container is called, and is not shown.
NAMED: Final = "named"
TEXTS: Final = ("uuid", "id", "message", "name", "pod", "namespace", "container")
_BEGIN: Final = b'{"time": "'
_WORDS: Final = re.compile(r"event=([a-z]{1,16})((?: [a-z_]{1,32}=[!-~]{1,127})*)")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. gpu: -1 where it is of none. id: of the container, whole.

    name: what a container engine calls the container; pod, namespace and container are Kubernetes' names.
    figures: bytes, counts and nanoseconds, by the keys of docs/tree.md.
    """

    time: datetime
    event: str
    gpu: int = -1
    uuid: str = ""
    id: str = ""
    name: str = ""
    pod: str = ""
    namespace: str = ""
    container: str = ""
    message: str = ""
    figures: Mapping[str, int] = field(default_factory=dict)

    @property
    def called(self) -> str:
        """Return what the container is called: NAMESPACE/POD/CONTAINER, or its name, or nothing."""
        if self.pod:
            return "/".join(part for part in (self.namespace, self.pod, self.container) if part)
        return self.name


def of_line(raw: bytes) -> Event | None:
    """Return the event of a line of the event log; None for a line that has none."""
    # A line that was cut off, as on a full disk, may stand before the event, but never inside it.
    begin = max(raw.rfind(_BEGIN), 0)
    try:
        document = json.loads(raw[begin:])
        moment = datetime.fromisoformat(document["time"])
        moment.astimezone()  # of the first and the last year, which may be none here
        kind = document["event"]
        # A kind that is not known is of a version to come.
        if moment.tzinfo is None or not (kind in KINDS or kind == NAMED):
            return None
        return _event(moment.astimezone(UTC), kind, document)
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return None


def fields_of_words(text: str) -> dict[str, str | int] | None:
    """Return the fields of a line of the engine, event=KIND KEY=VALUE...; None for any other line."""
    found = _WORDS.fullmatch(text)
    if found is None:
        return None
    fields: dict[str, str | int] = {"event": found[1]}
    for word in found[2].split():
        key, _, value = word.partition("=")
        fields[key] = value if key in TEXTS else int(value) if value.isdecimal() else 0
    return fields


def of_words(moment: datetime, text: str) -> Event | None:
    """Return the event of a line of the engine; None for any other line."""
    fields = fields_of_words(text)
    if fields is None or fields["event"] not in KINDS:
        return None
    return _event(moment, str(fields["event"]), fields)


def last_of_each(events: Iterable[Event], *kinds: str) -> dict[str, Event]:
    """Return the last event of each container, of some kinds, by its id."""
    ordered = sorted(events, key=lambda event: event.time)
    return {event.id: event for event in ordered if event.id and event.event in kinds}


def _event(moment: datetime, kind: str, document: Mapping[str, Any]) -> Event:
    texts = {key: _text(document.get(key)) for key in TEXTS}
    gpu = document.get("gpu")
    index = gpu if isinstance(gpu, int) and is_index(str(gpu)) else -1
    figures = {
        key: value
        for key, value in document.items()
        if key not in ("time", "event", "gpu", *TEXTS) and _is_figure(key, value)
    }
    return Event(moment, kind, index, figures=figures, **texts)


def _is_figure(key: str, value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_NUMBER and re.fullmatch("[a-z_]{1,32}", key) is not None


def _text(value: object) -> str:
    """Return a text as it may go to a terminal."""
    return one_line(value) if isinstance(value, str) else ""
