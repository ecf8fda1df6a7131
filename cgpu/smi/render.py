# SPDX-License-Identifier: Apache-2.0
"""One sample of the GPUs as a table, as JSON, as CSV, with the source of its figures.

Pure: records in, text out.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from cgpu.errors import one_line
from cgpu.smi.model import Container, Gpu
from cgpu.smi.scheduling import DRIVER, GATES, NOBODY, NONE, SAMPLES, TIME_SLICES, Scheduling, policy_name

MIB = 1 << 20
WIDTHS = (12, 24, 8, 6, 10, 10)
HEADINGS = ("CONTAINER", "NAME", "GPU-UTIL", "LIMIT", "MEM-USED", "MEM-ALLOC")
LEFT = 2  # columns that are text
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
UNKNOWN = "N/A"
MS = 1_000_000
DIVISIONS = {
    GATES: ", by gates",
    TIME_SLICES: ", by timeslices",
    DRIVER: ", by the driver",
    NOBODY: ", not enforced",
}
MEASURES = {GATES: "measured between gates", SAMPLES: "from the driver's samples"}


def table(gpus: tuple[Gpu, ...]) -> str:
    """Return a block per GPU: one line about the card, the headings, one line per container."""
    return "\n".join(block(gpu) for gpu in gpus) if gpus else "no GPUs\n"


def block(gpu: Gpu) -> str:
    """Return the lines about one GPU."""
    card = f"GPU {gpu.index}: {one_line(gpu.model or UNKNOWN)} ({short_uuid(gpu.uuid)})"
    number = UNKNOWN if gpu.policy is None else gpu.policy
    policy = f"policy {number} ({policy_name(gpu.policy)}{division(gpu.scheduling)})"
    unused = f", {mib(gpu.reserved)} of them reserved and unused" if gpu.reserved else ""
    head = f"{card}, {policy}, {mib(gpu.promised)} of {mib(gpu.total)} MiB promised{unused}"
    rows = [row(container) for container in gpu.containers]
    body = [line(HEADINGS), *(line(one) for one in rows), *notes(gpu)] if rows else [without(gpu)]
    return "".join(f"{one}\n" for one in [head, *body])


def without(gpu: Gpu) -> str:
    """Say that no container is shown."""
    return "no containers" if gpu.hidden is None else "no containers of yours"


def row(container: Container) -> tuple[str, ...]:
    """Return the six cells of a container."""
    return (
        cut(container.directory, WIDTHS[0]),
        cut(container.name or "-", WIDTHS[1]),
        percent(container.utilisation),
        percent(container.limit),
        memory(container.used),
        memory(container.allocated),
    )


def line(cells: tuple[str, ...]) -> str:
    """Return cells in fixed columns, text to the left and numbers to the right."""
    padded = (
        cell.ljust(width) if column < LEFT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )
    return "  ".join(padded).rstrip()


def cut(text: str, width: int) -> str:
    """Return printable text that fits the width; three dots stand for what was cut."""
    safe = one_line(text)
    return safe if len(safe) <= width else safe[: width - 3] + "..."


def short_uuid(uuid: str | None) -> str:
    """Return a UUID up to its first group."""
    return UNKNOWN if uuid is None else one_line("-".join(uuid.split("-")[:2]))


def mib(size: int | None) -> str:
    """Return bytes as MiB, rounded up: one page in use must not show as nothing."""
    return UNKNOWN if size is None else str(-(-size // MIB))


def memory(size: int | None) -> str:
    """Return a cell with bytes in MiB."""
    return UNKNOWN if size is None else f"{mib(size)} MiB"


def percent(share: float | None) -> str:
    """Return a share in whole percent."""
    return UNKNOWN if share is None else f"{share:.0f}%"


def gpu_object(gpu: Gpu) -> dict[str, object]:
    """Return one GPU as a JSON object."""
    return {
        "index": gpu.index,
        "name": gpu.model,
        "uuid": gpu.uuid,
        "policy": gpu.policy,
        "policy_name": policy_name(gpu.policy),
        **sources(gpu),
        "memory_total_bytes": gpu.total,
        "memory_promised_bytes": gpu.promised,
        "memory_reserved_bytes": gpu.reserved,
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
        "weight": container.weight,
        "high_prio": container.high_prio,
        "pids": list(container.pids),
    }


def rounded(share: float | None) -> float | None:
    """Return a share with one decimal."""
    return None if share is None else round(share, 1)


def as_json(gpus: tuple[Gpu, ...], time: str, *, compact: bool) -> str:
    """Return the sample as JSON: indented, or on one line so that many samples can be read line by line."""
    document = {"time": time, "gpus": [gpu_object(gpu) for gpu in gpus]}
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
    """Yield the fields of every container."""
    for gpu in gpus:
        for one in gpu.containers:
            shares = (rounded(one.utilisation), rounded(one.limit))
            yield (time, gpu.index, gpu.uuid, one.id, one.name, *shares, one.used, one.allocated)


def division(scheduling: Scheduling) -> str:
    """Return what a policy's name is followed by: who divides the time."""
    return DIVISIONS.get(scheduling.divided_by or "", "")


def notes(gpu: Gpu) -> tuple[str, str]:
    """Return the lines under a table."""
    return f"GPU-UTIL  {utilisation(gpu)}", f"LIMIT     {limit(gpu.scheduling)}"


def utilisation(gpu: Gpu) -> str:
    """Say how utilisation is measured."""
    said, over = gpu.scheduling, "" if gpu.interval is None else f", over {gpu.interval:.1f} s"
    if said.usage_from == NONE:
        return "not measured"
    if said.usage_from is None:
        return f"the engine does not say how it is measured{over}"
    exact = "" if said.resolution is None else f", exact to {milliseconds(said.resolution)}"
    return f"{MEASURES[said.usage_from]}{exact}{over}"


def limit(said: Scheduling) -> str:
    """Say who keeps the limits."""
    unit = "" if said.slice is None else f"; a unit of weight is {milliseconds(said.slice)}"
    match said.divided_by:
        case "gates":
            return f"by policy and weights, kept by gates{unit}"
        case "time_slices":
            return f"by policy and weights, kept by the card's timeslices{unit}"
        case "driver":
            return "the driver's own scheduling, as without slices"
        case "nobody":
            return "by policy and weights, kept by nobody: the engine's log says why"
        case _:
            return "by policy and weights; the engine does not say whether it is kept"


def milliseconds(ns: int) -> str:
    """Return a time with three digits, or whole milliseconds where these are more."""
    return f"{ns / MS:.3g} ms" if ns < 1000 * MS else f"{ns // MS} ms"


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
