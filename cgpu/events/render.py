# SPDX-License-Identifier: Apache-2.0
"""Forms in which `cgpu events` writes an event: a line of a table, or JSON."""

from __future__ import annotations

import json
import textwrap
from datetime import datetime
from typing import Final

from cgpu.client.directory import directory_of
from cgpu.client.stat import CALL_REASONS, MEMORY_REASONS
from cgpu.events.event import Event
from cgpu.slice import in_words
from cgpu.smi.text import called, memory

# Not strftime's, whose words are those of the locale.
MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
LEAST_COLUMNS: Final = 80
CONTAINER: Final = 20  # columns of the container's name; of a wider terminal it takes a half more
MOST_CONTAINER: Final = 64
REASONS: Final = (*MEMORY_REASONS, *CALL_REASONS)
NS: Final = 1_000_000_000
HEAD: Final = ("TIME", "EVENT", "GPU", "CONTAINER", "DETAILS")


class Table:
    """Lines of columns. On a terminal they fit its width; elsewhere nothing is cut or wrapped."""

    def __init__(self, columns: int | None) -> None:
        """columns: of the terminal; None elsewhere."""
        self._columns = None if columns is None else max(columns, LEAST_COLUMNS)
        more = 0 if self._columns is None else (self._columns - LEAST_COLUMNS) // 2
        self._container = min(CONTAINER + more, MOST_CONTAINER)

    def head(self) -> str:
        """Return the line above the columns."""
        return self._line(*HEAD)

    def row(self, event: Event) -> str:
        """Return an event's line; on a terminal its details may take several."""
        container = event.called or directory_of(event.id) or "-"
        gpu = "-" if event.gpu < 0 else str(event.gpu)
        return self._line(short_time(event.time), event.event, gpu, container, details(event))

    def _line(self, when: str, event: str, gpu: str, container: str, text: str) -> str:
        shown = container if self._columns is None else called(container, self._container)
        begin = f"{when:<15} {event:<8} {gpu:>3} {shown:<{self._container}} "
        if self._columns is None:
            return (begin + text).rstrip()
        lines = textwrap.wrap(text, self._columns - len(begin), break_on_hyphens=False) or [""]
        return ("\n" + " " * len(begin)).join(lines).join((begin, "")).rstrip()


def short_time(moment: datetime) -> str:
    """Return a moment in this machine's time zone, as journalctl writes it."""
    here = moment.astimezone()
    return f"{MONTHS[here.month - 1]} {here.day:02} {here:%H:%M:%S}"


def duration(ns: int) -> str:
    """Return a time in its two largest units."""
    seconds = ns // NS
    if seconds < 60:
        return f"{ns / NS:.1f}s"
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part}{smaller}"
    return ""


def details(event: Event) -> str:
    """Return in words what an event says beside its columns."""
    figures = event.figures
    if event.message:
        # The column before has it.
        return event.message.removeprefix(f"container {event.id}: ")
    if event.event == "started":
        return f"{memory(figures.get('memsize'), ' ')}, {in_words(figures)}"
    if event.event == "ended":
        lived = [f"lived {duration(figures['lived'])}"] if "lived" in figures else []
        peak, size = memory(figures.get("peak"), " "), memory(figures.get("memsize"), " ")
        return ", ".join([f"peak {peak} of {size}", *lived, *refusals(event)])
    return event.uuid


def refusals(event: Event) -> list[str]:
    """Return what was refused to a slice, by reason."""
    counts = [(reason, event.figures.get(f"refused_{reason}", 0)) for reason in REASONS]
    found = [f"{count} ({reason})" for reason, count in counts if count]
    return [f"refused {' '.join(found)}"] if found else []


def as_json(event: Event) -> str:
    """Return an event as one JSON object; empty fields are left out."""
    texts = ("uuid", "id", "name", "pod", "namespace", "container", "message")
    document = {
        "time": f"{event.time:%Y-%m-%dT%H:%M:%S.%fZ}",
        "event": event.event,
        **({} if event.gpu < 0 else {"gpu": event.gpu}),
        **{key: value for key in texts if (value := getattr(event, key))},
        **event.figures,
    }
    return json.dumps(document)
