# SPDX-License-Identifier: Apache-2.0
"""
The table: boxes of GPUs, slices and processes, with the same things at the same places as nvidia-smi.

Pure: a sample in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cgpu import __version__
from cgpu.client.cards import Card, Container
from cgpu.client.scheduling import DIVISIONS
from cgpu.smi.node import Versions
from cgpu.smi.text import UNKNOWN, called, cut, in_mib, known, memory, of_limit, percent, short_uuid

LEAST, MOST = 79, 119  # columns
MEMORY, TIME = 20, 23  # widths of the second and the third column; the first one has the rest
UUID_COLUMNS = 45


@dataclass(frozen=True)
class Widths:
    """Widths of the columns' texts."""

    whole: int
    name: int
    memory: int = MEMORY
    time: int = TIME

    def rule(self, end: str, between: str, fill: str) -> str:
        """Return the line between two rows."""
        parts = (fill * (one + 2) for one in (self.name, self.memory, self.time))
        return end + between.join(parts) + end

    def row(self, name: str, memory: str, time: str) -> str:
        """Return one line of three cells."""
        return (
            f"| {cut(name, self.name):<{self.name}} | {cut(memory, self.memory):>{self.memory}} "
            f"| {cut(time, self.time):<{self.time}} |"
        )

    def edge(self, fill: str = "-", end: str = "+") -> str:
        """Return a line from edge to edge."""
        return end + fill * (self.whole - 2) + end

    def line(self, text: str) -> str:
        """Return one line without columns."""
        return f"| {cut(text, self.whole - 4):<{self.whole - 4}} |"


def widths(columns: int) -> Widths:
    """Return the widths for a terminal."""
    whole = max(LEAST, min(columns - 1, MOST))
    return Widths(whole, whole - MEMORY - TIME - 10)


def table(cards: tuple[Card, ...], versions: Versions, now: datetime, columns: int = 80) -> str:
    """Return the whole screen."""
    wide = widths(columns)
    lines = [f"{now:%a %b} {now.day:2} {now:%H:%M:%S %Y}", *_cards(cards, versions, wide)]
    if cards:
        lines += ["", *_slices(cards, wide), "", *_processes(cards, wide)]
    return "".join(f"{one}\n" for one in lines)


def _cards(cards: tuple[Card, ...], versions: Versions, wide: Widths) -> Iterator[str]:
    yield wide.edge()
    yield wide.line(
        f"CGPU-SMI {__version__:<12} Driver Version: {known(versions.driver):<12} "
        f"Engine: {known(versions.engine)}"
    )
    if not cards:
        yield wide.edge()
        yield wide.line("No GPUs found")
        yield wide.edge()
        return
    yield wide.rule("|", "+", "-")
    yield wide.row("GPU  Name", _both("Bus-Id", "MIG M.", MEMORY), _both("Slices", "Places", TIME))
    yield wide.row("     Promised", "Memory-Usage", _both("GPU-Util", "Policy", TIME))
    yield wide.row("     UUID", "", _both("", "Divided", TIME))
    yield wide.rule("|", "+", "=")
    for card in cards:
        yield from _card(card, wide)
        yield wide.rule("+", "+", "-")


def _card(card: Card, wide: Widths) -> Iterator[str]:
    stat = card.stat
    places = f"{known(None if card.partial else stat.places)} / {stat.max_inst}"
    uuid = known(stat.uuid) if wide.name >= UUID_COLUMNS else short_uuid(stat.uuid)
    promised = memory(stat.promised) + (f", {in_mib(card.reserved)} unused" if card.reserved else "")
    busy = "Lost" if stat.lost else percent(card.utilisation)
    divided = DIVISIONS.get(card.scheduling.divided_by or "", UNKNOWN)
    yield wide.row(
        f"{card.index:3}  {cut(card.model, wide.name - 5)}",
        _both(known(card.bus), "On" if stat.mig else "Off", MEMORY),
        _both(f"{len(card.containers):5}", places, TIME),
    )
    yield wide.row(
        f"     {cut(promised, wide.name - 5)}",
        f"{memory(card.used):>8} / {memory(stat.memtotal):>8}",
        _both(f"{busy:>5}", card.policy_name, TIME),
    )
    yield wide.row(f"     {cut(uuid, wide.name - 5)}", "", _both("", divided, TIME))


def _slices(cards: tuple[Card, ...], wide: Widths) -> Iterator[str]:
    yield wide.edge()
    yield wide.line("Slices:")
    yield wide.row("GPU  Container", "Memory-Usage", _both("GPU-Util", "Share", TIME))
    yield wide.row("     Name", _both("Used", "Peak", MEMORY), _both("Weight", "Refused", TIME))
    found = [(card, one) for card in cards for one in card.containers]
    ended = [(card, *each) for card in cards for each in card.left]
    if not found and not ended:
        yield wide.edge("=", "|")
        yield wide.line(f" {without(cards)}")
        yield wide.edge()
        return
    yield wide.rule("|", "+", "=")
    for card, one in found:
        yield from _slice(card, one, wide)
        yield wide.rule("+", "+", "-")
    for card, container, size in ended:
        yield wide.row(
            f"{card.index:3}  {cut(container, min(12, wide.name - 5))}", memory(size), "ended, not yet freed"
        )
        yield wide.rule("+", "+", "-")


def without(cards: Iterable[Card]) -> str:
    """Say that no slice is shown."""
    return "No slices of yours found" if any(card.partial for card in cards) else "No slices found"


def _slice(card: Card, one: Container, wide: Widths) -> Iterator[str]:
    stat = one.stat
    weight = f"{stat.slice.weight:>4}{' high' if stat.slice.highprio else ''}"
    yield wide.row(
        f"{card.index:3}  {cut(one.directory, wide.name - 5)}",
        f"{memory(stat.used):>8} / {memory(stat.slice.memsize):>8}",
        _both(f"{percent(one.utilisation):>5}", percent(one.limit), TIME),
    )
    yield wide.row(
        f"     {called(one.name or '-', wide.name - 5)}",
        _both(f"{percent(of_limit(stat.used, stat.slice.memsize)):>4}", memory(one.peak), MEMORY),
        _both(weight, str(sum(one.refused.values())), TIME),
    )


def _processes(cards: tuple[Card, ...], wide: Widths) -> Iterator[str]:
    def row(gpu: object, container: str, pid: object, kind: str, name: str, size: str) -> str:
        room = wide.whole - 56
        cells = f"{gpu:>3}   {container:<12} {pid:>10} {kind:>6}   {cut(name, room):<{room}} {size:>10}"
        return f"|  {cut(cells, wide.whole - 6):<{wide.whole - 6}}  |"

    yield wide.edge()
    yield wide.line("Processes:")
    yield row("GPU", "Container", "PID", "Type", "Process name", "GPU Memory")
    yield row("", "", "", "", "", "Usage".ljust(10))
    yield wide.edge("=", "|")
    found = [(card, one, each) for card in cards for one in card.containers for each in one.processes]
    if not found:
        yield wide.line(" No running processes found")
    for card, one, each in found:
        # The engine does not tell compute from graphics.
        yield row(
            card.index, cut(one.directory, 12), each.pid, UNKNOWN, known(each.name), memory(each.memory)
        )
    yield wide.edge()


def _both(left: str, right: str, width: int) -> str:
    """Return two texts at the edges of a cell."""
    room = max(1, width - len(left))
    return f"{left}{cut(right, room - 1):>{room}}"
