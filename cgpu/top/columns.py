# SPDX-License-Identifier: Apache-2.0
"""The columns of cards and slices. Pure: a row in, the text of a cell out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.text import Text

from cgpu.client.cards import Card, Container
from cgpu.client.stat import SliceStat
from cgpu.errors import one_line
from cgpu.smi.text import UNKNOWN, called, cut, memory, of_limit, percent

BLOCKS = " ▁▂▃▄▅▆▇█"
BAR, HISTORY, NAME = 10, 12, 24
# Both can be read on black and on white in the palettes of usual terminals.
TIME, MEMORY, ALERT = "green", "bright_magenta", "bold bright_red"

Figures = Sequence[float | None]
"""Shares of GPU time so far, in percent, the latest last."""
Figure = float | str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A card, or a slice of it."""

    card: Card
    one: Container
    times: Figures = ()

    @property
    def stat(self) -> SliceStat:
        """The slice's figures."""
        return self.one.stat


@dataclass(frozen=True, slots=True)
class CardRow:
    """A card with its history."""

    card: Card
    times: Figures = ()


View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class Column(Generic[View]):
    """A column: its heading, its width, its cell, and what is sorted by it."""

    heading: str
    width: int
    cell: Callable[[View], Text]
    figure: Callable[[View], Figure] = lambda _: None


def bar(share: float | None, style: str) -> Text:
    """Return a bar of a part in percent, and the number. A part above zero has one character at least."""
    filled = 0 if share is None else min(BAR, max(round(BAR * share / 100), int(share > 0)))
    return Text.assemble(("|" * filled).ljust(BAR), f"{percent(share):>5}", style=style)


def history(figures: Figures) -> Text:
    """Return the latest figures as characters of different height, the latest at the right."""
    heights = (-(-min(one or 0, 100) * (len(BLOCKS) - 1) // 100) for one in figures[-HISTORY:])
    return Text("".join(BLOCKS[int(height)] for height in heights).rjust(HISTORY), style=TIME)


def right(text: object, width: int, style: str = "") -> Text:
    """Return text at the right of its column."""
    return Text(cut(str(text), width).rjust(width), style=style)


def conditions(card: Card) -> Text:
    """Return which conditions of a card need attention."""
    found = {
        "lost": card.stat.lost,
        "memory missing": card.stat.drift_lasting,
        "time not divided": card.stat.undivided,
        "MIG": card.stat.mig,
    }
    return Text(", ".join(name for name, holds in found.items() if holds), style=ALERT)


def name(row: Row) -> str:
    """Return what a container is called."""
    return row.one.name or row.one.directory


def used(row: Row) -> float:
    """Return the part of its memory that a slice uses, in percent."""
    return of_limit(row.stat.used, row.stat.slice.memsize)


def refused(row: Row) -> int:
    """Return how many calls were refused to a slice."""
    return sum(row.one.refused.values())


CARDS: tuple[Column[CardRow], ...] = (
    Column("GPU", 3, lambda row: right(row.card.index, 3)),
    Column("MODEL", 12, lambda row: Text(cut(row.card.model, 12))),
    Column("GPU-UTIL", BAR + 5, lambda row: bar(row.card.utilisation, TIME)),
    Column("", HISTORY, lambda row: history(row.times)),
    Column("USED", 9, lambda row: right(memory(row.card.used), 9, MEMORY)),
    Column("PROMISED", 9, lambda row: right(memory(row.card.stat.promised), 9)),
    Column("MEMORY", 9, lambda row: right(memory(row.card.stat.memtotal), 9)),
    Column("POLICY", 17, lambda row: Text(cut(row.card.policy_name, 17))),
    Column("STATE", 16, lambda row: conditions(row.card)),
)
SLICES: tuple[Column[Row], ...] = (
    Column("GPU", 3, lambda row: right(row.card.index, 3), lambda row: -row.card.index),
    Column("NAME", NAME, lambda row: Text(called(name(row), NAME), style="bold"), name),
    Column("GPU-UTIL", BAR + 5, lambda row: bar(row.one.utilisation, TIME), lambda row: row.one.utilisation),
    Column("", HISTORY, lambda row: history(row.times)),
    Column("LIMIT", 5, lambda row: right(percent(row.one.limit), 5), lambda row: row.one.limit),
    Column("MEMORY", BAR + 5, lambda row: bar(used(row), MEMORY), used),
    Column("USED", 9, lambda row: right(memory(row.stat.used), 9), lambda row: row.stat.used),
    Column(
        "OF",
        9,
        lambda row: right(memory(row.stat.slice.memsize), 9),
        lambda row: row.stat.slice.memsize,
    ),
    Column("REFUSED", 7, lambda row: right(refused(row), 7, ALERT if refused(row) else ""), refused),
    Column("THROTTLED", 9, lambda row: right(percent(row.one.throttled), 9), lambda row: row.one.throttled),
    Column("WEIGHT", 6, lambda row: right(row.stat.slice.weight, 6), lambda row: row.stat.slice.weight),
    Column("CONTAINER", 12, lambda row: Text(cut(row.one.directory, 12), style="dim")),
)


def ordered(rows: Sequence[Row], by: str, *, inverted: bool) -> list[Row]:
    """Return slices sorted by a column: the largest first, or names in their order; unknown figures last."""
    figure = next(one.figure for one in SLICES if one.heading == by)
    plain = sorted(rows, key=lambda row: (row.card.index, name(row)))
    known = [row for row in plain if figure(row) is not None]
    known.sort(key=lambda row: _comparable(figure(row)), reverse=(by != "NAME") != inverted)
    return [*known, *(row for row in plain if figure(row) is None)]


def _comparable(figure: Figure) -> tuple[float, str]:
    return (0, figure.lower()) if isinstance(figure, str) else (figure or 0, "")


def matches(row: Row, words: str) -> bool:
    """Say whether each word is a part of the container's name (with pod and namespace) or id, in any case."""
    text = f"{row.one.name or ''} {row.stat.id}".lower()
    return all(word in text for word in words.lower().split())


def summary(cards: Sequence[Card]) -> str:
    """Return how much there is."""
    slices = sum(len(card.containers) for card in cards)
    return f"{len(cards)} GPU{'s' * (len(cards) != 1)}, {slices} slice{'s' * (slices != 1)}"


def engine(text: str | None) -> str:
    """Return the engine's name and version."""
    return UNKNOWN if text is None else one_line(" ".join(text.split(" ")[:2]))
