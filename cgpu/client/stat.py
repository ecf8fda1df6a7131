# SPDX-License-Identifier: Apache-2.0
"""The tree's entries `stat` as records: counters of the engine, of a GPU and of its slices."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from cgpu.errors import CgpuError, show
from cgpu.slice import ATTRIBUTES, Slice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Refused = tuple[Mapping[str, int], ...]

SLICES: Final = 25  # as many as a GPU has places
DIGITS: Final = 20
# Outcomes of calls; the entries have `*_ns` and `*_times` of each.
OUTCOMES: Final = ("executed", "continued", "answered")
SIGNED: Final = ("drift",)
BUCKETS: Final = 32  # no engine has more
BOUNDS: Final = tuple(4**number / 1e6 for number in range(BUCKETS))
QUEUES: Final = ("listeners_held", "answers_kept", "timeslices_left")
# By the keys `refused_*`; docs/tree.md says what each means.
MEMORY_REASONS: Final = ("limit", "card", "unaccounted")
CALL_REASONS: Final = ("class", "control", "client", "records", "call")


@dataclass(frozen=True, slots=True)
class Latency:
    """How long calls took. calls: how many of each bucket, of which the last has no bound; ns: their sum."""

    ns: int
    calls: tuple[int, ...]

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Return bounds in seconds, the last of which is infinite, and how many calls took no longer."""
        return zip((*BOUNDS[: len(self.calls) - 1], math.inf), accumulate(self.calls), strict=True)


@dataclass(frozen=True, slots=True)
class EngineStat:
    """Counters of the engine since its state was made, and how full its tables are.

    A counter that this engine lacks is None, or missing from its mapping.
    """

    notified: int
    executed: int
    continued: int
    answered: int
    refused: int
    registered: int
    restarts: int
    upgrades: int
    reloads: int
    containers: int
    containers_max: int
    clients: int
    clients_max: int
    objects: int
    objects_max: int
    orphaned_clients: int
    orphaned_clients_max: int
    orphaned_objects: int
    orphaned_objects_max: int
    calls_now: int
    refused_calls: Mapping[str, int]
    workers: int | None
    workers_max: int | None
    queues: Mapping[str, int]
    latencies: Mapping[str, Latency]


class SliceStat(NamedTuple):
    """One container on one GPU. Sizes in bytes, times in nanoseconds; refused_calls is of the container."""

    id: str
    slice: Slice
    used: int
    charged: int
    peak: int
    usage: int
    throttled: int
    refused: Mapping[str, int]
    refused_calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GpuStat:
    """One GPU with its slices. Sizes in bytes, times in nanoseconds; drift may be below 0."""

    uuid: str
    drift: int
    memtotal: int
    memfree: int
    promised: int
    used: int
    orphaned: int
    orphaned_ids: int
    policy: int
    prio_ratio: int
    max_inst: int
    places: int
    weights: int
    mig: int
    natives: int
    drift_lasting: int
    undivided: int
    usage: int
    lost: int
    refused: Mapping[str, int]
    slices: tuple[SliceStat, ...]


def parse_engine(text: str) -> EngineStat:
    """Return what the root's entry says. Raises CgpuError where it is not well formed."""
    line = _Line(text)
    queues = {key: line.optional(key) for key in QUEUES}
    return EngineStat(
        **line.numbers(_ENGINE),
        refused_calls=line.refused(CALL_REASONS),
        workers=line.optional("workers"),
        workers_max=line.optional("workers_max"),
        queues={key: length for key, length in queues.items() if length is not None},
        latencies={outcome: line.latency(outcome) for outcome in OUTCOMES},
    )


def parse_gpu(text: str) -> GpuStat:
    """Return what a GPU's entry says. Raises CgpuError where it is not well formed."""
    first, *others = text.split("\n")
    if len(others) > SLICES:
        raise CgpuError(f"stat: {len(others)} slices, expected at most {SLICES}; see the engine's log")
    uuid, figures, (refused,) = _GPU.read(first)
    return GpuStat(
        uuid,
        **dict(zip(_GPU.keys, figures, strict=True)),
        refused=refused,
        slices=tuple(map(parse_slice, others)),
    )


def parse_slice(text: str) -> SliceStat:
    """Return what a container's entry says. Raises CgpuError where it is not well formed."""
    container, figures, (memory, calls) = _SLICE.read(text)
    values = _slice_of(*figures[: len(ATTRIBUTES)])
    used, charged, peak, usage, throttled = figures[len(ATTRIBUTES) :]
    return SliceStat(container, values, used, charged, peak, usage, throttled, memory, calls)


def _numbers_of(record: type) -> tuple[str, ...]:
    names: Mapping[str, object] = record.__annotations__
    # A NamedTuple has its annotations as forward references.
    return tuple(name for name, kind in names.items() if getattr(kind, "__forward_arg__", kind) == "int")


_ENGINE: Final = _numbers_of(EngineStat)
# A monitor reads the same slices each time.
_slice_of: Final = lru_cache(maxsize=1024)(Slice)


def _whole(key: str, text: str, sign: str = "") -> int:
    digits = text.removeprefix(sign)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS):
        raise CgpuError(f"stat: {key}={show(text)}: a whole number was expected; see the engine's log")
    return int(text)


class _Line:
    """The words `key=value` of a line; keys that no caller asks for are ignored."""

    def __init__(self, line: str) -> None:
        self._words = dict(word.partition("=")[::2] for word in line.split(" "))
        self._line = line

    def text(self, key: str) -> str:
        found = self._words.get(key)
        if not found:
            raise CgpuError(f"stat: {show(self._line)}: expected {key}=...; see the engine's log")
        return found

    def number(self, key: str, sign: str = "") -> int:
        """Return a whole number. sign: an optional character before it."""
        return _whole(key, self.text(key), sign)

    def optional(self, key: str) -> int | None:
        return self.number(key) if key in self._words else None

    def latency(self, outcome: str) -> Latency:
        key = f"{outcome}_times"
        calls = self.text(key).split(",")
        if len(calls) > BUCKETS:
            raise CgpuError(
                f"stat: {key}: {len(calls)} buckets, expected at most {BUCKETS}; see the engine's log"
            )
        return Latency(self.number(f"{outcome}_ns"), tuple(_whole(key, one) for one in calls))

    def numbers(self, keys: tuple[str, ...]) -> dict[str, int]:
        return {key: self.number(key) for key in keys}

    def refused(self, reasons: tuple[str, ...]) -> dict[str, int]:
        return {reason: self.number(f"refused_{reason}") for reason in reasons}


class _Form:
    """The line of one kind of thing: its name, its figures in the order of their keys, and its refusals."""

    def __init__(self, name: str, keys: tuple[str, ...], *reasons: tuple[str, ...]) -> None:
        self._name = name
        self.keys = keys
        self._reasons = reasons
        # The line as an engine of this version writes it, matched in one step: reading by key takes ten times
        # as long.
        digits = f"[0-9]{{1,{DIGITS}}}"
        words = "".join(f" {key}=({'-?' * (key in SIGNED)}{digits})" for key in self.keys)
        self._usual = re.compile(f"{name}=([^ ]+){words}((?: refused_[a-z]+=[^ ]*)*)")
        self._known = lru_cache(maxsize=1024)(self._refused)

    def read(self, text: str) -> tuple[str, list[int], Refused]:
        usual = self._usual.fullmatch(text)
        if usual is None:
            return *self._by_key(text), self._refused(text)
        name, *figures, refused = usual.groups()
        return name, list(map(int, figures)), self._known(refused)

    def _refused(self, words: str) -> Refused:
        return tuple(map(_Line(words).refused, self._reasons))

    def _by_key(self, text: str) -> tuple[str, list[int]]:
        """Read a line whose keys stand in any order, with others between them."""
        line = _Line(text)
        figures = [line.number(key, "-" if key in SIGNED else "") for key in self.keys]
        return line.text(self._name), figures


_GPU: Final = _Form("uuid", _numbers_of(GpuStat), MEMORY_REASONS)
_SLICE: Final = _Form(
    "id", (*(one.name for one in ATTRIBUTES), *_numbers_of(SliceStat)), MEMORY_REASONS, CALL_REASONS
)
