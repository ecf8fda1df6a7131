# SPDX-License-Identifier: Apache-2.0
"""
The fields of --query-gpu and --query-slices, and their CSV.

A field has nvidia-smi's name where nvidia-smi has the same thing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from cgpu import suggest
from cgpu.errors import one_line, show
from cgpu.slice import BESIDE_MEMORY, Attribute
from cgpu.smi.model import Container, Gpu
from cgpu.smi.node import Versions
from cgpu.smi.text import MIB as MEBI
from cgpu.smi.text import UNKNOWN, in_mib, of_limit, word, yes

Value = str | int | float | None
MIB, PERCENT, MS = "MiB", "%", "ms"
HEADER, UNITS = "noheader", "nounits"
REFUSED = {
    "limit": "allocations that the slice has no room for",
    "card": "allocations for which the driver had no memory",
    "unaccounted": "allocations while memory of the card is unaccounted for",
    "class": "objects of a class that is not for containers",
    "control": "controls that are not for containers",
    "client": "calls about an RM client of another container",
    "records": "calls for whose objects the engine has no record left",
    "call": "all other calls",
}


@dataclass(frozen=True)
class GpuView:
    """Source of a row of --query-gpu."""

    gpu: Gpu
    count: int
    versions: Versions
    now: datetime


@dataclass(frozen=True)
class SliceView:
    """Source of a row of --query-slices."""

    one: Container
    of: GpuView


View = TypeVar("View")


@dataclass(frozen=True)
class Field(Generic[View]):
    """A field: its name, its meaning, its value and its unit."""

    name: str
    says: str
    value: Callable[[View], Value]
    unit: str = ""


@dataclass(frozen=True)
class Format:
    """Format of CSV."""

    header: bool = True
    units: bool = True


def stamp(view: GpuView) -> str:
    """Return the time as nvidia-smi writes it."""
    return f"{view.now:%Y/%m/%d %H:%M:%S}.{view.now.microsecond // 1000:03}"


def whole(share: float | None) -> Value:
    """Return a share in whole percent, as nvidia-smi does."""
    return None if share is None else f"{share:.0f}"


def tenths(share: float | None) -> Value:
    """Return a share in percent with one decimal."""
    return None if share is None else f"{share:.1f}"


def milliseconds(ns: int | None) -> Value:
    """Return nanoseconds as whole milliseconds."""
    return None if ns is None else ns // 1_000_000


def left(total: int | None, used: int | None) -> Value:
    """Return what is left in MiB: with what is used it makes the total, although both are rounded."""
    if total is None or used is None:
        return None
    return max(0, -(-total // MEBI) - -(-used // MEBI))


def refused(one: Container, reason: str | None = None) -> Value:
    """Return how many calls were refused, for a reason or in all."""
    if one.refused is None:
        return None
    return sum(one.refused.values()) if reason is None else one.refused.get(reason)


def attribute(of: Attribute) -> Field[SliceView]:
    """Return the field of an attribute of slices."""

    def value(view: SliceView) -> Value:
        found = of.typed(view.one.slice.get(of.name))
        return word(found) if isinstance(found, bool) else found

    return Field(of.column, of.says, value)


def refusals(reason: str) -> Field[SliceView]:
    """Return the field of the calls that were refused for a reason."""
    return Field(f"refused.{reason}", f"of these {REFUSED[reason]}", lambda v: refused(v.one, reason))


def _by_name(*fields: Field[View]) -> Mapping[str, Field[View]]:
    return {one.name: one for one in fields}


GPU_FIELDS: Mapping[str, Field[GpuView]] = _by_name(
    Field("timestamp", "when the figures were read", stamp),
    Field("driver_version", "version of NVIDIA's driver", lambda v: v.versions.driver),
    Field("engine", "engine and its version", lambda v: v.versions.engine),
    Field("count", "number of GPUs", lambda v: v.count),
    Field("name", "model of the card", lambda v: v.gpu.model),
    Field("index", "number of the GPU in the engine's tree, from 0", lambda v: v.gpu.index),
    Field("uuid", "UUID of the card", lambda v: v.gpu.uuid),
    Field("pci.bus_id", "place on the PCI bus: domain:bus:device.function", lambda v: v.gpu.bus),
    Field("minor_number", "minor number of the device node", lambda v: v.gpu.minor),
    Field("mig.mode.current", "whether MIG is on", lambda v: word(v.gpu.mig)),
    Field("lost", "whether the driver no longer reaches the GPU", lambda v: yes(v.gpu.lost)),
    Field("memory.total", "memory of the card", lambda v: in_mib(v.gpu.total), MIB),
    Field("memory.used", "memory of the card that is taken, by whomever", lambda v: in_mib(v.gpu.used), MIB),
    Field("memory.free", "memory that the card has left", lambda v: left(v.gpu.total, v.gpu.used), MIB),
    Field("memory.promised", "limits of all slices, and reservations", lambda v: in_mib(v.gpu.promised), MIB),
    Field(
        "memory.reserved_unused",
        "promised to shares, and in no slice",
        lambda v: in_mib(v.gpu.reserved),
        MIB,
    ),
    Field("memory.unaccounted", "lacking beyond what is charged", lambda v: in_mib(v.gpu.drift), MIB),
    Field("utilization.gpu", "GPU time that all slices had", lambda v: whole(v.gpu.utilisation), PERCENT),
    Field("policy", "number of the scheduling policy", lambda v: v.gpu.policy),
    Field("policy.name", "name of the scheduling policy", lambda v: v.gpu.policy_name),
    Field("divided_by", "what divides GPU time", lambda v: v.gpu.scheduling.divided_by),
    Field("slices.count", "number of slices that are shown", lambda v: len(v.gpu.containers)),
    Field("places.taken", "places taken, by containers and reservations", lambda v: v.gpu.places),
    Field("places.total", "places in all", lambda v: v.gpu.max_inst),
    Field("passthrough.count", "containers with the whole GPU", lambda v: v.gpu.passthrough),
)
SLICE_FIELDS: Mapping[str, Field[SliceView]] = _by_name(
    Field("timestamp", "when the figures were read", lambda v: stamp(v.of)),
    Field("gpu_name", "model of the card", lambda v: v.of.gpu.model),
    Field("gpu_index", "number of the GPU in the engine's tree, from 0", lambda v: v.of.gpu.index),
    Field("gpu_uuid", "UUID of the card", lambda v: v.of.gpu.uuid),
    Field("gpu_bus_id", "place of the card on the PCI bus", lambda v: v.of.gpu.bus),
    Field("container", "whole id of the container", lambda v: v.one.id),
    Field("name", "name of the container; of a pod's NAMESPACE/POD/CONTAINER", lambda v: v.one.name),
    Field("memory.total", "memory limit of the slice", lambda v: in_mib(v.one.allocated), MIB),
    Field("memory.used", "memory that is charged to the container", lambda v: in_mib(v.one.used), MIB),
    Field("memory.free", "what the slice has left", lambda v: left(v.one.allocated, v.one.used), MIB),
    Field("memory.peak", "the most that was charged", lambda v: in_mib(v.one.peak), MIB),
    Field(
        "memory.used_percent",
        "part of the limit that is charged",
        lambda v: tenths(of_limit(v.one.used, v.one.allocated)),
        PERCENT,
    ),
    Field("utilization.gpu", "GPU time that the slice had", lambda v: whole(v.one.utilisation), PERCENT),
    Field("share", "GPU time that the settings promise", lambda v: tenths(v.one.limit), PERCENT),
    Field("time.used", "GPU time since the start", lambda v: milliseconds(v.one.engine_time), MS),
    Field(
        "time.throttled",
        "time in which the share did not let it run",
        lambda v: milliseconds(v.one.throttled),
        MS,
    ),
    *map(attribute, BESIDE_MEMORY),
    Field("processes", "number of processes that hold memory", lambda v: len(v.one.pids)),
    Field("refused", "calls that were refused in all", lambda v: refused(v.one)),
    *map(refusals, REFUSED),
)

# Fields of --query with --format, which names none.
USUAL = (
    "gpu_index",
    "container",
    "name",
    "memory.used",
    "memory.total",
    "memory.peak",
    "utilization.gpu",
    "share",
    "refused",
)


def usual() -> Sequence[Field[SliceView]]:
    """Return the fields of a slice that are shown where none are named."""
    return [SLICE_FIELDS[name] for name in USUAL]


def fields(known: Mapping[str, Field[View]], option: str) -> Callable[[str], Sequence[Field[View]]]:
    """Return the type of an argument that is a list of fields. option: lists those that there are."""

    def read(text: str) -> Sequence[Field[View]]:
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in known:
                more = f"{option} lists all fields"
                near = suggest.expected(name, list(known), more)
                raise argparse.ArgumentTypeError(f"{show(name) or 'an empty name'}: {near}")
        return [known[name] for name in names]

    return read


def csv_format(text: str) -> Format:
    """Read the argument of --format. Raises ArgumentTypeError."""
    first, *words = [word.strip() for word in text.split(",")]
    if first != "csv" or not set(words) <= {HEADER, UNITS}:
        raise argparse.ArgumentTypeError(f"{show(text)}: expected csv, csv,noheader or csv,noheader,nounits")
    return Format(header=HEADER not in words, units=UNITS not in words)


def described(known: Mapping[str, Field[View]]) -> str:
    """Return the help's list: each field, its unit, and its meaning."""
    size = max(len(name) for name in known)
    units = {name: f" [{one.unit}]" if one.unit else "" for name, one in known.items()}
    return "".join(f"{name:<{size}}  {one.says}{units[name]}\n" for name, one in known.items())


def gpu_views(gpus: Sequence[Gpu], versions: Versions, now: datetime) -> list[GpuView]:
    """Return what --query-gpu has rows of."""
    return [GpuView(gpu, len(gpus), versions, now) for gpu in gpus]


def slice_views(gpus: Sequence[Gpu], versions: Versions, now: datetime) -> list[SliceView]:
    """Return what --query-slices has rows of."""
    return [SliceView(one, of) for of in gpu_views(gpus, versions, now) for one in of.gpu.containers]


def rows(wanted: Sequence[Field[View]], views: Sequence[View], form: Format, *, first: bool) -> str:
    """Return CSV as nvidia-smi writes it: fields with a comma and a space between them, the header once."""
    heads = [f"{one.name} [{one.unit}]" if one.unit else one.name for one in wanted]
    lines = [heads] if first and form.header else []
    lines += [list(_cells(wanted, view, form)) for view in views]
    return "".join(f"{', '.join(map(quoted, line))}\n" for line in lines)


def _cells(wanted: Sequence[Field[View]], view: View, form: Format) -> Iterator[str]:
    for one in wanted:
        value = one.value(view)
        unit = f" {one.unit}" if one.unit and form.units else ""
        yield UNKNOWN if value is None else f"{one_line(str(value))}{unit}"


def quoted(text: str) -> str:
    """Return a cell, in quotation marks where it would read as something else without."""
    if not text or set(text) & set('",') or text != text.strip():
        return '"{}"'.format(text.replace('"', '""'))
    return text
