# SPDX-License-Identifier: Apache-2.0
"""The detailed view: each figure on a line of its own, indented below what it is of, as nvidia-smi -q."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from cgpu import __version__
from cgpu.client.stat import CALL_REASONS, MEMORY_REASONS
from cgpu.slice import BESIDE_MEMORY, Attribute
from cgpu.smi.model import Container, Gpu, Process
from cgpu.smi.node import Versions
from cgpu.smi.table import process_name
from cgpu.smi.text import UNKNOWN, known, memory, milliseconds, of_limit, percent, word, yes

KEYS = 42  # columns up to the colon
Entry = tuple[str, "str | Sequence[Entry]"]


def details(gpus: tuple[Gpu, ...], versions: Versions, now: datetime) -> str:
    """Return the whole text."""
    head: list[Entry] = [
        ("Timestamp", f"{now:%a %b} {now.day:2} {now:%H:%M:%S %Y}"),
        ("OpenCGPU Version", __version__),
        ("Driver Version", known(versions.driver)),
        ("Engine", known(versions.engine)),
        ("Attached GPUs", str(len(gpus))),
    ]
    lines = ["", "==============CGPU-SMI LOG==============", "", *_lines(head)]
    for gpu in gpus:
        lines += ["", f"GPU {known(gpu.bus or gpu.index)}", *_lines(_gpu(gpu), 1)]
    return "".join(f"{one}\n" for one in lines)


def _lines(entries: Sequence[Entry], depth: int = 0) -> Iterator[str]:
    for key, value in entries:
        label = "    " * depth + key
        if isinstance(value, str):
            yield f"{label:<{KEYS}}: {value}"
        else:
            yield label
            yield from _lines(value, depth + 1)


def _gpu(gpu: Gpu) -> list[Entry]:
    slices: str | list[Entry] = [entry for one in gpu.containers for entry in _slice(one)]
    return [
        ("Product Name", known(gpu.model)),
        ("Index", str(gpu.index)),
        ("GPU UUID", known(gpu.uuid)),
        ("Minor Number", known(gpu.minor)),
        ("PCI", [("Bus Id", known(gpu.bus))]),
        ("MIG Mode", [("Current", known(word(gpu.mig)))]),
        ("Lost By The Driver", known(yes(gpu.lost))),
        ("FB Memory Usage", _card_memory(gpu)),
        ("Utilization", _utilisation(gpu)),
        ("Scheduling", _scheduling(gpu)),
        ("Containers With The Whole GPU", known(gpu.passthrough)),
        ("Slices", slices or ("None" if gpu.hidden is None else "None of yours")),
    ]


def _card_memory(gpu: Gpu) -> list[Entry]:
    return [
        ("Total", memory(gpu.total, " ")),
        ("Used", memory(gpu.used, " ")),
        ("Free", memory(gpu.free, " ")),
        ("Promised", memory(gpu.promised, " ")),
        ("Reserved And Unused", memory(gpu.reserved, " ")),
        ("Unaccounted", memory(gpu.drift, " ")),
    ]


def _utilisation(gpu: Gpu) -> list[Entry]:
    said = gpu.scheduling
    return [
        ("Gpu", percent(gpu.utilisation, " ")),
        ("Source", known(said.usage_from)),
        ("Resolution", UNKNOWN if said.resolution is None else milliseconds(said.resolution)),
        ("Interval", UNKNOWN if gpu.interval is None else f"{gpu.interval:.1f} s"),
    ]


def _scheduling(gpu: Gpu) -> list[Entry]:
    unit = gpu.scheduling.slice
    return [
        ("Policy", f"{known(gpu.policy)} ({gpu.policy_name})"),
        ("Divided By", known(gpu.scheduling.divided_by)),
        ("Time Of A Unit Of Weight", UNKNOWN if unit is None else milliseconds(unit)),
        ("Part Of High Priority", UNKNOWN if gpu.prio_ratio is None else f"{gpu.prio_ratio} %"),
        ("Places", known(gpu.max_inst)),
        ("Places Taken", known(gpu.places)),
    ]


def _slice(one: Container) -> list[Entry]:
    processes: str | list[Entry] = [_process(each) for each in one.processes]
    entries: list[Entry] = [
        ("Name", known(one.name)),
        ("FB Memory Usage", _slice_memory(one)),
        ("Utilization", _slice_time(one)),
        *((of.title, _attribute(of, one.slice.get(of.name))) for of in BESIDE_MEMORY),
        ("Refused Allocations", _refused(one, MEMORY_REASONS)),
        ("Refused Calls", _refused(one, CALL_REASONS)),
        ("Processes", processes or "None"),
    ]
    return [(f"Container {known(one.id)}", entries)]


def _attribute(of: Attribute, value: int | None) -> str:
    return UNKNOWN if value is None else of.shown(value).capitalize()


def _process(each: Process) -> Entry:
    return (
        f"Process ID {each.pid}",
        [("Name", known(process_name(each))), ("Used GPU Memory", memory(each.memory, " "))],
    )


def _slice_memory(one: Container) -> list[Entry]:
    free = None if one.allocated is None or one.used is None else max(0, one.allocated - one.used)
    return [
        ("Total", memory(one.allocated, " ")),
        ("Used", memory(one.used, " ")),
        ("Free", memory(free, " ")),
        ("Peak", memory(one.peak, " ")),
        ("Used Of Total", percent(of_limit(one.used, one.allocated), " ")),
    ]


def _slice_time(one: Container) -> list[Entry]:
    return [
        ("Gpu", percent(one.utilisation, " ")),
        ("Share", percent(one.limit, " ")),
        ("Throttled", UNKNOWN if one.throttled is None else milliseconds(one.throttled)),
    ]


def _refused(one: Container, reasons: Sequence[str]) -> list[Entry]:
    counts = one.refused or {}
    return [(reason.capitalize(), known(counts.get(reason))) for reason in reasons]
