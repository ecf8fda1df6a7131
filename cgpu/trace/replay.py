# SPDX-License-Identifier: Apache-2.0
"""A trace again: each call through the engine's core, and those that the simulated cards can do on these."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgpu.errors import CgpuError
from cgpu.trace import names
from cgpu.trace.build import address, build
from cgpu.trace.kinds import Part, part_of
from cgpu.trace.library import ANSWER, CARD, CONTROL, OTHER, REFUSE, UVM, CCall, Stage
from cgpu.trace.show import named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.trace.format import Event, Trace

MAX_CARDS = 32


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call came to: whether the slice let it through, and what the cards said if they were asked."""

    event: Event
    through: bool
    played: Part
    status: int | None
    result: int

    @property
    def differs(self) -> bool:
        """Whether the replay gave something else than what was recorded, where both can be told."""
        if self.event.result is None or (self.through and self.played is not Part.PLAYED):
            return False
        return (self.result, self.status) != (min(self.event.result, 0), self.event.status)


@dataclass(frozen=True, slots=True)
class Balance:
    """Bytes of one card: what it says is taken, and what the slice is charged."""

    card: int
    taken: int
    charged: int

    @property
    def agrees(self) -> bool:
        """Whether both are the same."""
        return self.taken == self.charged


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole replay.

    peak: when each card had given out the most, or when it first disagreed with the charges.
    end: after the last line of the trace. closed: when every file is closed.
    """

    answers: tuple[Answer, ...]
    not_replayed: dict[str, int]
    peak: tuple[Balance, ...]
    end: tuple[Balance, ...]
    closed: tuple[Balance, ...]

    @property
    def differences(self) -> tuple[Answer, ...]:
        """The calls that came to something else."""
        return tuple(answer for answer in self.answers if answer.differs)

    @property
    def agrees(self) -> bool:
        """Whether nothing differs, cards and charges agree, and nothing is left."""
        right = all(balance.agrees for balance in (*self.peak, *self.end))
        empty = all(balance.taken == balance.charged == 0 for balance in self.closed)
        return not self.differences and right and empty


class Player:
    """One replay under way."""

    def __init__(self, stage: Stage, version: str) -> None:
        """version: of the trace's structures."""
        self._stage = stage
        self._version = version
        self._files: dict[int, int] = {}
        self.answers: list[Answer] = []
        self.not_replayed: Counter[str] = Counter()
        self.peak = self.balances()

    def play(self, event: Event) -> None:
        """Do what an event says."""
        if event.call in ("open", "found"):
            self._open(event)
        elif event.is_driver_call:
            self._call(event)
            self.peak = tuple(map(_worse, self.peak, self.balances()))
        if event.last:
            self._stage.release(self._files.pop(event.file, 0))

    def close(self) -> None:
        """Close every file that is still open."""
        while self._files:
            self._stage.release(self._files.popitem()[1])

    def balances(self) -> tuple[Balance, ...]:
        """Return the state of every card."""
        cards = range(self._stage.cards())
        return tuple(Balance(card, self._stage.taken(card), self._stage.charged(card)) for card in cards)

    def _open(self, event: Event) -> None:
        if event.file in self._files or (event.result or 0) < 0:
            return
        opened = self._stage.open(*node_of(event.node))
        if opened:
            self._files[event.file] = opened
        else:
            self.not_replayed[f"open {event.node}, and what was called on it"] += 1

    def _call(self, event: Event) -> None:
        if event.file not in self._files:
            self.not_replayed["calls on files that are not open here"] += 1
            return
        played = part_of(event)
        built = build(event, self._version, lambda file: self._files.get(file, 0))
        call = CCall(
            file=self._files[event.file],
            process=event.pid,
            nr=event.nr,
            bytes=built.size,
            ask_only=played is Part.ASKED,
            top=address(built.top),
            memory=address(built.memory),
            memory_bytes=len(built.memory),
        )
        self._stage.call(call)
        through = call.verdict not in (ANSWER, REFUSE)
        status = _status(event, built.top, built.layout)
        self.answers.append(Answer(event, through, played, status, call.result))
        if played is not Part.PLAYED:
            self.not_replayed[named(event)] += 1


def _worse(before: Balance, now: Balance) -> Balance:
    if not before.agrees or (now.agrees and now.taken <= before.taken):
        return before
    return now


def _status(event: Event, top: bytearray, layout: names.Layout | None) -> int | None:
    if layout is None:
        return None
    for name, kind in names.kinds(event.form).items():
        if kind == "status":
            return layout.get(top, name)
    return None


def node_of(node: str) -> tuple[int, int]:
    """Return kind and card of a node."""
    number = node.removeprefix("nvidia")
    if number.isdigit():
        return CARD, int(number)
    return {"nvidiactl": CONTROL, "nvidia-uvm": UVM, "nvidia-uvm-tools": UVM}.get(node, OTHER), 0


def cards_needed(events: Sequence[Event]) -> int:
    """Return how many cards a trace names, at least one."""
    most = 0
    for event in events:
        kind, card = node_of(event.node)
        most = max(most, card if kind == CARD else 0)
        if event.params and event.params.form == "NV0080_ALLOC_PARAMETERS":
            most = max(most, event.params.given.get("deviceId") or 0)
    return min(most + 1, MAX_CARDS)


def replay(trace: Trace, card: str, memory: int, **options: Any) -> Outcome:
    """Replay a trace on cards of one model, in a slice of memory bytes on each; 0: all. Raises CgpuError."""
    version = trace.header.layouts
    if version is None or not names.known_version(version):
        raise CgpuError(
            f"layouts: {version or 'none'}: structures were not recorded or are not in the tables; "
            "expected a version of kmod/abi/nvidia.json; record with: cgpu trace record --driver VERSION"
        )
    stage = Stage(version, f"{card}:{cards_needed(trace.events)}", memory, **options)
    try:
        player = Player(stage, version)
        for event in trace.events:
            player.play(event)
        end = player.balances()
        player.close()
        answers, left_out = tuple(player.answers), dict(player.not_replayed)
        return Outcome(answers, left_out, player.peak, end, player.balances())
    finally:
        stage.close()
