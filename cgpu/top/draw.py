# SPDX-License-Identifier: Apache-2.0
"""
Bars, histories and figures as pieces of text, each with what it means.

Pure. A piece's meaning becomes a colour on a screen; without colours the characters alone tell the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from cgpu.errors import one_line

Piece = tuple[str, str]
"""Text, and what it means: one of the words below."""
Line = tuple[Piece, ...]

PLAIN, LABEL, DIM, STRONG = "", "label", "dim", "strong"
HEADING, SORTED = "heading", "sorted"
TIME, MEMORY, PROMISED, ALERT = "time", "memory", "promised", "alert"
MEANINGS = (PLAIN, LABEL, DIM, STRONG, HEADING, SORTED, TIME, MEMORY, PROMISED, ALERT)

WHOLE = 100.0
KIB = 1 << 10
MIB = 1 << 20
UNKNOWN = "N/A"
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:-=+*#@"


@dataclass(frozen=True, slots=True)
class Pen:
    """A terminal's characters. blocks: nine characters, from nothing to full."""

    blocks: str = BLOCKS
    gap: str = "·"
    """Stands in a history where nothing is known."""
    marks: str = "▼▲"
    """Beside the heading of what the table is sorted by: the usual way round, and the other."""


UNICODE, ASCII = Pen(), Pen(ASCII_BLOCKS, "_", "v^")


def pen(encoding: str | None) -> Pen:
    """Return what a terminal with an encoding can show."""
    return UNICODE if (encoding or "").lower().replace("-", "") == "utf8" else ASCII


def width(line: Line) -> int:
    """Return how many columns a line takes."""
    return sum(len(text) for text, _ in line)


def plain(line: Line) -> str:
    """Return a line's text."""
    return "".join(text for text, _ in line).rstrip()


def cut(text: str, columns: int) -> str:
    """Return printable ASCII that fits; what does not fit is cut, and `~` stands at its end."""
    safe = one_line(text)
    return safe if len(safe) <= columns else safe[: max(0, columns - 1)] + "~"[:columns]


def left(text: str, columns: int) -> str:
    """Return text in a column, to the left."""
    return cut(text, columns).ljust(columns)


def right(text: str, columns: int) -> str:
    """Return text in a column, to the right."""
    return cut(text, columns).rjust(columns)


def percent(share: float | None) -> str:
    """Return a share in whole percent."""
    return UNKNOWN if share is None else f"{share:.0f}%"


def size(count: int | None) -> str:
    """Return bytes in at most five characters; more than nothing is never 0."""
    if count is None:
        return UNKNOWN
    if count == 0:
        return "0M"
    mib = -(-count // MIB)
    return f"{mib}M" if mib < 10_000 else f"{count / MIB / KIB:.1f}G"


def mib(count: int | None) -> str:
    """Return bytes in MiB, rounded up, as cgpu-smi does."""
    return UNKNOWN if count is None else f"{-(-count // MIB)} MiB"


def span(ns: int | None) -> str:
    """Return a time."""
    if ns is None:
        return UNKNOWN
    seconds = ns / 1e9
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 1:
        return f"{seconds:.1f} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def bar(columns: int, label: str, *parts: tuple[float | None, str, str]) -> Line:
    """Return a bar with a label at its right end.

    parts: up to which percent of the bar, with which character, and what that means; each longer than the one
    before. A part above zero has one character at least.
    """
    inside = max(0, columns - 2)
    cells: list[Piece] = [(" ", PLAIN)] * inside
    for share, character, meaning in reversed(parts):
        if share is not None and share > 0:
            filled = min(inside, max(1, round(inside * share / WHOLE)))
            cells[:filled] = [(character, meaning)] * filled
    said = label[:inside]
    cells[inside - len(said) :] = [(said, STRONG)]
    return joined([("[", STRONG), *cells, ("]", STRONG)])


def joined(pieces: Iterable[Piece]) -> Line:
    """Return pieces with neighbours of one meaning put together."""
    return tuple(
        ("".join(text for text, _ in group), meaning)
        for meaning, group in groupby(pieces, key=lambda one: one[1])
    )


def history(with_pen: Pen, figures: Sequence[float | None], columns: int, meaning: str) -> Line:
    """Return the latest figures, in percent, as characters of different height, the latest at the right."""
    return chart(with_pen, figures, columns, 1, meaning)[0]


def chart(
    with_pen: Pen, figures: Sequence[float | None], columns: int, rows: int, meaning: str
) -> tuple[Line, ...]:
    """Return the latest figures, in percent, as columns that are some rows high."""
    latest = list(figures[max(0, len(figures) - columns) :]) if columns else []
    cells = ([" "] * rows for _ in range(columns - len(latest)))
    drawn = [*cells, *(_column(with_pen, figure, rows) for figure in latest)]
    return tuple((("".join(column[row] for column in drawn), meaning),) for row in range(rows))


def _column(with_pen: Pen, figure: float | None, rows: int) -> list[str]:
    """Return a column from top to bottom. A figure above zero is seen."""
    if figure is None:
        return [*" " * (rows - 1), with_pen.gap]
    steps = len(with_pen.blocks) - 1
    level = round(min(figure, WHOLE) / WHOLE * steps * rows)
    level = max(level, 1 if figure > 0 else 0)
    return [with_pen.blocks[min(steps, max(0, level - steps * row))] for row in reversed(range(rows))]
