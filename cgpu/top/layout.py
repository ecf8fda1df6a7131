# SPDX-License-Identifier: Apache-2.0
"""The lines of a view for a width: cards, headings, slices. Pure: records in, pieces of text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cgpu.top import draw
from cgpu.top.draw import (
    ALERT,
    DIM,
    HEADING,
    LABEL,
    MEMORY,
    PLAIN,
    PROMISED,
    SORTED,
    STRONG,
    TIME,
    Line,
    Pen,
)
from cgpu.top.model import Card, Slice, View, part

CARD = 80
"""Columns that a card needs at least."""
NAME = 17
NAME_MOST = 52
BAR_MOST = 20
HISTORY = 8
HISTORY_MOST = 60
GAP = 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table. order: the name of what it sorts by. least: the width that shows it."""

    order: str
    heading: str
    columns: int
    cell: Callable[[Slice, int, Pen], Line]
    least: int = 0
    is_text: bool = False


def name(container: Slice, columns: int) -> str:
    """Return what a container is called, as much as fits: the pod counts for more than its namespace."""
    known = container.owner
    if not known.pod:
        return draw.left(container.container.name or container.key.directory, columns)
    whole = f"{known.namespace}/{known.pod}/{known.container}"
    short = f"{known.pod}/{known.container}"
    return draw.left(whole if len(whole) <= columns else short, columns)


def _time(one: Slice, columns: int, _pen: Pen) -> Line:
    used = one.container.utilisation
    return draw.bar(columns, draw.percent(used), (used, "|", TIME))


def _memory(one: Slice, columns: int, _pen: Pen) -> Line:
    share = one.memory
    return draw.bar(columns, draw.percent(share), (share, "|", MEMORY))


def _refused(one: Slice, columns: int, _pen: Pen) -> Line:
    text = draw.UNKNOWN if one.refused is None else _count(one.refused, columns)
    return ((draw.right(text, columns), ALERT if one.refused_now else PLAIN),)


def _count(number: int, columns: int) -> str:
    return str(number) if len(str(number)) <= columns else f"{'9' * (columns - 1)}+"


def _plain(text: Callable[[Slice], str]) -> Callable[[Slice, int, Pen], Line]:
    return lambda one, columns, _pen: ((draw.right(text(one), columns), PLAIN),)


def _number(value: int | None) -> str:
    return draw.UNKNOWN if value is None else str(value)


COLUMNS = (
    Column("gpu", "GPU", 3, _plain(lambda one: str(one.key.gpu))),
    Column("name", "NAME", NAME, lambda one, columns, _: ((name(one, columns), STRONG),), is_text=True),
    Column(
        "id",
        "CONTAINER",
        12,
        lambda one, columns, _: ((draw.left(one.key.directory, columns), DIM),),
        120,
        is_text=True,
    ),
    Column("time", "GPU-UTIL", 10, _time, is_text=True),
    Column(
        "history",
        "",
        HISTORY,
        lambda one, columns, pen: draw.history(pen, one.times, columns, TIME),
        is_text=True,
    ),
    Column("limit", "LIMIT", 5, _plain(lambda one: draw.percent(one.container.limit))),
    Column("memory", "MEMORY", 10, _memory, is_text=True),
    Column("used", "USED", 5, _plain(lambda one: draw.size(one.container.used))),
    Column("allocated", "ALLOC", 5, _plain(lambda one: draw.size(one.container.allocated))),
    Column("throttled", "THROTTLED", 9, _plain(lambda one: draw.percent(one.throttled)), 100),
    Column("refused", "REFSD", 5, _refused),
    Column("processes", "PROC", 4, _plain(lambda one: str(len(one.container.pids))), 100),
    Column("weight", "WEIGHT", 6, _plain(lambda one: _number(one.container.weight)), 120),
)


def columns(total: int) -> list[tuple[Column, int]]:
    """Return the columns that are shown in a width, each with its own width."""
    shown = {one.order: one.columns for one in COLUMNS if one.least <= total}
    left_over = total - sum(shown.values()) - GAP * (len(shown) - 1)
    for order, most in (
        ("name", NAME_MOST),
        ("time", BAR_MOST),
        ("memory", BAR_MOST),
        ("history", HISTORY_MOST),
    ):
        more = max(0, min(left_over, most - shown[order]))
        shown[order] += more
        left_over -= more
    return [(one, shown[one.order]) for one in COLUMNS if one.order in shown]


def headings(total: int, pen: Pen, sorted_by: str, *, inverted: bool = False) -> Line:
    """Return the line above the table. The column by which it is sorted stands out."""
    found: list[draw.Piece] = []
    for column, wide in columns(total):
        mark = pen.marks[inverted] if column.order == sorted_by else ""
        text = f"{column.heading}{mark}"
        cell = text[:wide].ljust(wide) if column.is_text else text[-wide:].rjust(wide)
        found += [(" " * GAP, HEADING)] if found else []
        found.append((cell, SORTED if mark else HEADING))
    return draw.joined(found)


def row(one: Slice, total: int, pen: Pen) -> Line:
    """Return the line of a slice."""
    found: list[draw.Piece] = []
    for column, wide in columns(total):
        found += [(" " * GAP, PLAIN)] if found else []
        found += column.cell(one, wide, pen)
    return draw.joined(found)


def cards(view: View, total: int, pen: Pen) -> list[Line]:
    """Return the lines of all cards: side by side where there is room for two of them."""
    beside = 2 if total >= 2 * CARD and len(view.cards) > 1 else 1
    each = (total - (beside - 1) * 2) // beside
    lines = [card(one, each, pen) for one in view.cards]
    if beside == 1:
        return lines
    half = -(-len(lines) // 2)
    return [
        draw.joined((*first, ("  ", PLAIN), *(lines[half + at] if half + at < len(lines) else ())))
        for at, first in enumerate(lines[:half])
    ]


def card(one: Card, total: int, pen: Pen) -> Line:
    """Return the line of a card: the time of its slices, and its memory, in use and given out."""
    spare = max(0, total - CARD)
    spark, model = 6 + spare // 8, 8 + spare // 6
    share = part(one.used, one.gpu.total)
    label = f"{draw.size(one.used)}/{draw.size(one.gpu.total)}".rjust(12)
    time_columns = (total - 12 - model - 2 * spark - len(label)) // 2
    head = (
        (f"{draw.right(str(one.gpu.index), 3)} ", STRONG),
        (draw.left(short_model(one.gpu.model), model), PLAIN),
        ("!" if one.conditions else " ", ALERT),
    )
    times = (
        *draw.bar(time_columns, draw.percent(one.utilisation), (one.utilisation, "|", TIME)),
        (" ", PLAIN),
        *draw.history(pen, one.times, spark, TIME),
    )
    used = sum(draw.width(pieces) for pieces in (head, times)) + 5 + len(label) + spark
    memory = draw.bar(
        total - used,
        draw.percent(share) if total > CARD + 40 else "",
        (share, "|", MEMORY),
        (part(one.gpu.promised, one.gpu.total), ":", PROMISED),
    )
    memories = draw.history(pen, one.memories, spark, MEMORY)
    return draw.joined((*head, *times, (" Mem", LABEL), *memory, (f"{label} ", PLAIN), *memories))


def short_model(model: str | None) -> str:
    """Return a model without its maker, which is always the same."""
    return (model or draw.UNKNOWN).removeprefix("NVIDIA ").removeprefix("Tesla ")


def summary(view: View) -> str:
    """Return how much there is."""
    gpus, slices = len(view.cards), len(view.slices)
    return f"{gpus} GPU{'' if gpus == 1 else 's'}, {slices} slice{'' if slices == 1 else 's'}"


def policy(one: Card) -> str:
    """Return the policy of a card, by number and name."""
    number = draw.UNKNOWN if one.gpu.policy is None else one.gpu.policy
    return f"{number} ({one.gpu.policy_name})"


def nothing(view: View, filtered: str) -> str:
    """Say why the table is empty."""
    if filtered and view.slices:
        return f"no slice whose container's name or id has {draw.cut(filtered, 40)}"
    if not view.cards:
        return "no GPUs"
    hidden = any(one.gpu.hidden is not None for one in view.cards)
    return "no containers of yours" if hidden else "no containers"


def table(slices: Sequence[Slice], total: int, pen: Pen) -> list[Line]:
    """Return the lines of slices."""
    return [row(one, total, pen) for one in slices]
