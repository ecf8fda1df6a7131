# SPDX-License-Identifier: Apache-2.0
"""What the tree's entries `stat` say: figures and counters of the engine, a GPU and its slices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cgpu.errors import CgpuError, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SLICES: Final = 25  # as many as a GPU has places
DIGITS: Final = 20
# Of calls, by the keys `*_ns` and `*_times`.
OUTCOMES: Final = ("executed", "continued", "answered")
BUCKETS: Final = 32  # no engine has more; the bound of the n-th is 4^n us
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
        total = 0
        for number, calls in enumerate(self.calls):
            total += calls
            last = number == len(self.calls) - 1
            yield math.inf if last else 4**number / 1e6, total


@dataclass(frozen=True, slots=True)
class EngineStat:
    """Counters of the engine since its state was made, and how full its tables are.

    None, or missing from a mapping, is what this engine does not have, or one before that key.
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
    refused_calls: Mapping[str, int]
    calls_now: int | None
    workers: int | None
    workers_max: int | None
    queues: Mapping[str, int]
    latencies: Mapping[str, Latency]


@dataclass(frozen=True, slots=True)
class SliceStat:
    """One container on one GPU. Sizes in bytes, times in nanoseconds; refused_calls is of the container."""

    id: str
    memsize: int
    used: int
    peak: int
    weight: int
    highprio: int
    usage: int
    throttled: int
    refused: Mapping[str, int]
    refused_calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GpuStat:
    """One GPU with its slices. Sizes in bytes, times in nanoseconds; drift may be below 0.

    lost: 0 also of an engine before that key.
    """

    uuid: str
    drift: int
    memtotal: int
    memfree: int
    promised: int
    used: int
    orphaned: int
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
    latencies = {outcome: line.latency(outcome) for outcome in OUTCOMES}
    return EngineStat(
        **line.numbers(_ENGINE),
        refused_calls=line.refused(CALL_REASONS),
        calls_now=line.optional("calls_now"),
        workers=line.optional("workers"),
        workers_max=line.optional("workers_max"),
        queues={key: length for key, length in queues.items() if length is not None},
        latencies={outcome: one for outcome, one in latencies.items() if one is not None},
    )


def parse_gpu(text: str) -> GpuStat:
    """Return what a GPU's entry says. Raises CgpuError where it is not well formed."""
    first, *others = text.split("\n")
    if len(others) > SLICES:
        raise CgpuError(f"stat: {len(others)} slices, expected at most {SLICES}; see the engine's log")
    line = _Line(first)
    return GpuStat(
        uuid=line.text("uuid"),
        drift=line.number("drift", "-"),
        **line.numbers(_GPU),
        lost=line.number("lost", missing="0"),
        refused=line.refused(MEMORY_REASONS),
        slices=tuple(parse_slice(other) for other in others),
    )


def parse_slice(text: str) -> SliceStat:
    """Return what a container's entry says. Raises CgpuError where it is not well formed."""
    line = _Line(text)
    return SliceStat(
        id=line.text("id"),
        **line.numbers(_SLICE),
        refused=line.refused(MEMORY_REASONS),
        refused_calls=line.refused(CALL_REASONS),
    )


def _numbers_of(record: type) -> tuple[str, ...]:
    names: Mapping[str, object] = record.__annotations__
    return tuple(name for name, kind in names.items() if kind == "int" and name not in ("drift", "lost"))


_ENGINE: Final = _numbers_of(EngineStat)
_GPU: Final = _numbers_of(GpuStat)
_SLICE: Final = _numbers_of(SliceStat)


def _whole(key: str, text: str, sign: str = "") -> int:
    digits = text.removeprefix(sign)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS):
        raise CgpuError(f"stat: {key}={show(text)}: a whole number was expected; see the engine's log")
    return int(text)


class _Line:
    """The words `key=value` of a line; keys that nobody asks for are ignored."""

    def __init__(self, line: str) -> None:
        self._words = dict(word.partition("=")[::2] for word in line.split(" "))
        self._line = line

    def text(self, key: str) -> str:
        found = self._words.get(key)
        if not found:
            raise CgpuError(f"stat: {show(self._line)}: expected {key}=...; see the engine's log")
        return found

    def number(self, key: str, sign: str = "", missing: str = "") -> int:
        """Return a whole number. sign: what may stand before it; missing: what a missing key stands for."""
        return _whole(key, self._words.get(key, missing) or self.text(key), sign)

    def optional(self, key: str) -> int | None:
        return self.number(key) if key in self._words else None

    def latency(self, outcome: str) -> Latency | None:
        key = f"{outcome}_times"
        if key not in self._words:
            return None
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
