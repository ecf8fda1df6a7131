# SPDX-License-Identifier: Apache-2.0
"""One sample of the GPUs as JSON and as CSV. Pure: records in, text out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence

from cgpu.client.cards import Card, Container
from cgpu.client.scheduling import GATES, TIME_SLICES
from cgpu.errors import one_line
from cgpu.slice import BESIDE_MEMORY
from cgpu.smi.node import Versions
from cgpu.smi.text import UNITS

JSON_VERSION = 1
"""Version of the form: it changes when a reader of this one would go wrong, not with an added key."""
FIELDS = (
    "time",
    "gpu",
    "gpu_uuid",
    "container",
    "name",
    "utilisation_percent",
    "limit_percent",
    "memory_used_bytes",
    "memory_allocated_bytes",
)
"""Columns of --csv."""
QUERY_FIELDS = (
    *FIELDS,
    "memory_peak_bytes",
    *(one.column for one in BESIDE_MEMORY),
    "time_used_ns",
    "time_throttled_ns",
)


def card_object(card: Card) -> dict[str, object]:
    """Return one GPU as a JSON object."""
    stat = card.stat
    whole = None if card.partial else stat
    return {
        "index": card.index,
        "name": card.model,
        "uuid": stat.uuid,
        "minor_number": card.minor,
        "bus_id": card.bus,
        "mig": stat.mig != 0,
        "lost": stat.lost != 0,
        "policy": stat.policy,
        "policy_name": card.policy_name,
        **sources(card),
        "utilisation_percent": rounded(card.utilisation),
        "memory_total_bytes": stat.memtotal,
        "memory_used_bytes": card.used,
        "memory_free_bytes": card.free,
        "memory_promised_bytes": stat.promised,
        "memory_reserved_bytes": card.reserved,
        "memory_unaccounted_bytes": whole and whole.drift,
        "memory_left": [{"id": container, "bytes": size} for container, size in card.left],
        "places_taken": whole and whole.places,
        "places_total": stat.max_inst,
        "passthrough_containers": whole and whole.natives,
        "containers": [container_object(container) for container in card.containers],
    }


def container_object(container: Container) -> dict[str, object]:
    """Return one container as a JSON object."""
    stat = container.stat
    return {
        "id": stat.id,
        "name": container.name,
        "utilisation_percent": rounded(container.utilisation),
        "limit_percent": rounded(container.limit),
        "memory_used_bytes": stat.used,
        "memory_allocated_bytes": stat.slice.memsize,
        "memory_peak_bytes": container.peak,
        **{one.column: one.typed(getattr(stat.slice, one.name)) for one in BESIDE_MEMORY},
        "time_used_ns": stat.usage,
        "time_throttled_ns": stat.throttled,
        "refused": container.refused,
        "pids": [one.pid for one in container.processes],
        "processes": [
            {"pid": one.pid, "name": one.name, "memory_used_bytes": one.memory} for one in container.processes
        ],
    }


def sources(card: Card) -> dict[str, object]:
    """Return where utilisation and limit come from, as fields of a JSON object."""
    said = card.scheduling
    return {
        "divided_by": said.divided_by,
        "slice_ns": said.slice,
        "utilisation_source": said.usage_from,
        "utilisation_resolution_ns": said.resolution,
        "utilisation_interval_seconds": None if card.interval is None else round(card.interval, 3),
        "limit_source": "policy",
        "limit_resolution_ns": said.slice if said.divided_by in (GATES, TIME_SLICES) else None,
    }


def rounded(share: float | None) -> float | None:
    """Return a share with one decimal."""
    return None if share is None else round(share, 1)


def document(cards: tuple[Card, ...], versions: Versions, time: str) -> dict[str, object]:
    """Return the sample as a JSON object without the version of its form."""
    return {
        "time": time,
        "engine": versions.engine,
        "driver_version": versions.driver,
        "gpus": [card_object(card) for card in cards],
    }


def as_json(cards: tuple[Card, ...], versions: Versions, time: str, *, compact: bool) -> str:
    """Return the sample as JSON: indented, or on one line so that many samples can be read line by line."""
    versioned = {"version": JSON_VERSION, **document(cards, versions, time)}
    return json.dumps(versioned, indent=None if compact else 2) + "\n"


def as_csv(
    cards: tuple[Card, ...], time: str, fields: Sequence[str] = FIELDS, *, header: bool, units: bool = False
) -> str:
    """Return the sample as CSV, one line per container. An unknown value is an empty field."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(fields)
    for row in csv_rows(cards, time):
        writer.writerow([csv_cell(name, row[name], units=units) for name in fields])
    return stream.getvalue()


def csv_rows(cards: tuple[Card, ...], time: str) -> Iterator[Mapping[str, object]]:
    """Yield the fields of every container by their names."""
    for card in cards:
        of_card = {"time": time, "gpu": card.index, "gpu_uuid": card.stat.uuid}
        for one in card.containers:
            yield {**of_card, "container": one.stat.id, **container_object(one)}


def csv_cell(name: str, value: object, *, units: bool) -> str:
    """Return a value as CSV has it. A container's name is escaped: the reader may be a terminal."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else one_line(str(value))
    unit = UNITS.get(name.rpartition("_")[2])
    return f"{text} {unit}" if units and unit else text
