# SPDX-License-Identifier: Apache-2.0
"""One sample of the GPUs as a table, as JSON, as CSV. Pure: records in, text out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from cgpu.errors import one_line
from cgpu.smi import notes
from cgpu.smi.model import Container, Gpu
from cgpu.smi.notes import UNKNOWN, division

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


def table(gpus: tuple[Gpu, ...]) -> str:
    """Return a block per GPU: one line about the card, the headings, one line per container."""
    return "\n".join(block(gpu) for gpu in gpus) if gpus else "no GPUs\n"


def block(gpu: Gpu) -> str:
    """Return the lines about one GPU."""
    card = f"GPU {gpu.index}: {one_line(gpu.model or UNKNOWN)} ({short_uuid(gpu.uuid)})"
    number = UNKNOWN if gpu.policy is None else gpu.policy
    policy = f"policy {number} ({gpu.policy_name}{division(gpu.scheduling)})"
    head = f"{card}, {policy}, {mib(gpu.promised)} of {mib(gpu.total)} MiB promised"
    rows = [row(container) for container in gpu.containers]
    body = [line(HEADINGS), *(line(one) for one in rows), *notes.lines(gpu)] if rows else ["no containers"]
    return "".join(f"{one}\n" for one in [head, *body])


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


def document(gpus: tuple[Gpu, ...], time: str) -> dict[str, object]:
    """Return the sample as a JSON object."""
    return {"time": time, "gpus": [gpu_object(gpu) for gpu in gpus]}


def gpu_object(gpu: Gpu) -> dict[str, object]:
    """Return one GPU as a JSON object."""
    return {
        "index": gpu.index,
        "name": gpu.model,
        "uuid": gpu.uuid,
        "policy": gpu.policy,
        "policy_name": gpu.policy_name,
        **notes.fields(gpu),
        "memory_total_bytes": gpu.total,
        "memory_promised_bytes": gpu.promised,
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
    return json.dumps(document(gpus, time), indent=None if compact else 2) + "\n"


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
