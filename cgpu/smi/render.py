# SPDX-License-Identifier: Apache-2.0
"""One sample of the GPUs as JSON and as --csv. Pure: records in, text out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from cgpu.errors import one_line
from cgpu.slice import BESIDE_MEMORY
from cgpu.smi.model import Container, Gpu
from cgpu.smi.node import Versions
from cgpu.smi.scheduling import GATES, TIME_SLICES

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


def gpu_object(gpu: Gpu) -> dict[str, object]:
    """Return one GPU as a JSON object."""
    return {
        "index": gpu.index,
        "name": gpu.model,
        "uuid": gpu.uuid,
        "minor_number": gpu.minor,
        "bus_id": gpu.bus,
        "mig": gpu.mig,
        "lost": gpu.lost,
        "policy": gpu.policy,
        "policy_name": gpu.policy_name,
        **sources(gpu),
        "utilisation_percent": rounded(gpu.utilisation),
        "memory_total_bytes": gpu.total,
        "memory_used_bytes": gpu.used,
        "memory_free_bytes": gpu.free,
        "memory_promised_bytes": gpu.promised,
        "memory_reserved_bytes": gpu.reserved,
        "memory_unaccounted_bytes": gpu.drift,
        "memory_left": [{"id": container, "bytes": size} for container, size in gpu.left],
        "places_taken": gpu.places,
        "places_total": gpu.max_inst,
        "passthrough_containers": gpu.passthrough,
        "containers": [container_object(container) for container in gpu.containers],
    }


def container_object(container: Container) -> dict[str, object]:
    """Return one container as a JSON object."""
    return {
        "id": container.id,
        "name": container.name,
        "utilisation_percent": rounded(container.utilisation),
        "limit_percent": rounded(container.limit),
        "memory_used_bytes": container.used,
        "memory_allocated_bytes": container.allocated,
        "memory_peak_bytes": container.peak,
        **{one.column: one.typed(container.slice.get(one.name)) for one in BESIDE_MEMORY},
        "time_used_ns": container.engine_time,
        "time_throttled_ns": container.throttled,
        "refused": container.refused,
        "pids": list(container.pids),
        "processes": [
            {"pid": one.pid, "name": one.name, "memory_used_bytes": one.memory} for one in container.processes
        ],
    }


def sources(gpu: Gpu) -> dict[str, object]:
    """Return where utilisation and limit come from, as fields of a JSON object."""
    said = gpu.scheduling
    return {
        "divided_by": said.divided_by,
        "slice_ns": said.slice,
        "utilisation_source": said.usage_from,
        "utilisation_resolution_ns": said.resolution,
        "utilisation_interval_seconds": None if gpu.interval is None else round(gpu.interval, 3),
        "limit_source": "policy",
        "limit_resolution_ns": said.slice if said.divided_by in (GATES, TIME_SLICES) else None,
    }


def rounded(share: float | None) -> float | None:
    """Return a share with one decimal."""
    return None if share is None else round(share, 1)


def as_json(gpus: tuple[Gpu, ...], versions: Versions, time: str, *, compact: bool) -> str:
    """Return the sample as JSON: indented, or on one line so that many samples can be read line by line."""
    document = {
        "version": JSON_VERSION,
        "time": time,
        "engine": versions.engine,
        "driver_version": versions.driver,
        "gpus": [gpu_object(gpu) for gpu in gpus],
    }
    return json.dumps(document, indent=None if compact else 2) + "\n"


def as_csv(gpus: tuple[Gpu, ...], time: str, *, header: bool) -> str:
    """Return the sample as CSV, one line per container. An unknown value is an empty field."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(FIELDS)
    writer.writerows(csv_rows(gpus, time))
    return stream.getvalue()


def csv_rows(gpus: tuple[Gpu, ...], time: str) -> Iterator[tuple[object, ...]]:
    """Yield the fields of every container. A name is escaped: the reader may be a terminal."""
    for gpu in gpus:
        for one in gpu.containers:
            shares = (rounded(one.utilisation), rounded(one.limit))
            texts = [None if text is None else one_line(text) for text in (gpu.uuid, one.id, one.name)]
            yield (time, gpu.index, *texts, *shares, one.used, one.allocated)
