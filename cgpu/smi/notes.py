# SPDX-License-Identifier: Apache-2.0
"""Where utilisation and limit come from, and how exact they are."""

from __future__ import annotations

from cgpu.smi.model import Gpu
from cgpu.smi.scheduling import DRIVER, GATES, NOBODY, NONE, SAMPLES, TIME_SLICES, Scheduling

UNKNOWN = "N/A"
MS = 1_000_000
DIVISIONS = {
    GATES: ", by gates",
    TIME_SLICES: ", by timeslices",
    DRIVER: ", by the driver",
    NOBODY: ", not enforced",
}
MEASURES = {GATES: "measured between gates", SAMPLES: "from the driver's samples"}


def division(scheduling: Scheduling) -> str:
    """Return what a policy's name is followed by: who divides the time."""
    return DIVISIONS.get(scheduling.divided_by or "", "")


def lines(gpu: Gpu) -> tuple[str, str]:
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


def fields(gpu: Gpu) -> dict[str, object]:
    """Return the same as fields of a JSON object."""
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
