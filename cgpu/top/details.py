# SPDX-License-Identifier: Apache-2.0
"""The lines about one slice: its limits, its use, refusals, and its processes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cgpu.errors import one_line
from cgpu.slice import in_words
from cgpu.top import draw
from cgpu.top.draw import ALERT, HEADING, LABEL, MEMORY, PLAIN, STRONG, TIME, Line, Pen
from cgpu.top.layout import policy
from cgpu.top.model import Card, Slice
from cgpu.top.reading import Process

LABELS = 11
BAR = 26
CHART_ROWS = 3


def of_slice(one: Slice, card: Card, processes: Sequence[Process], total: int, pen: Pen) -> list[Line]:
    """Return all that is known of a slice."""
    return [
        *_whose(one, card),
        (),
        *_figures(one, card),
        *_counters(one),
        (),
        *_charts(one, total, pen),
        (),
        *_processes(processes, total),
    ]


def _field(label: str, *pieces: draw.Piece) -> Line:
    return ((draw.left(label, LABELS), LABEL), *pieces)


def _whose(one: Slice, card: Card) -> list[Line]:
    known, gpu = one.owner, card.gpu
    name = known.container if known.pod else one.container.name or one.key.directory
    pod = [_field("Pod", (one_line(f"{known.namespace}/{known.pod}"), PLAIN))] if known.pod else []
    model = one_line(gpu.model or draw.UNKNOWN)
    conditions = [_field("", (f"! {what}", ALERT)) for what in card.conditions]
    return [
        _field("Container", (one_line(name), STRONG)),
        *pod,
        _field("Id", (one_line(one.container.id), PLAIN)),
        _field("GPU", (f"{gpu.index}, {model}, {one_line(gpu.uuid or draw.UNKNOWN)}", PLAIN)),
        *conditions,
    ]


def _figures(one: Slice, card: Card) -> list[Line]:
    container = one.container
    used, limit = container.utilisation, container.limit
    peak = "" if one.stat is None else f", peak {draw.mib(one.stat.peak)}"
    return [
        _field(
            "Memory",
            *draw.bar(BAR, draw.percent(one.memory), (one.memory, "|", MEMORY)),
            (
                f" {draw.mib(container.used).removesuffix(' MiB')} of {draw.mib(container.allocated)}{peak}",
                PLAIN,
            ),
        ),
        _field(
            "GPU time",
            *draw.bar(BAR, draw.percent(used), (used, "|", TIME)),
            (f" limit {draw.percent(limit)}, throttled {draw.percent(one.throttled)}", PLAIN),
        ),
        _field("Share", (f"{in_words(container.slice)}, policy {policy(card)}", PLAIN)),
    ]


def _counters(one: Slice) -> list[Line]:
    if one.stat is None:
        return [_field("Refused", (draw.UNKNOWN, PLAIN))]
    times = f"{draw.span(one.stat.usage)} of GPU time, throttled {draw.span(one.stat.throttled)}"
    return [
        _field("Altogether", (times, PLAIN)),
        _field("Refused", *_reasons("memory", one.stat.refused)),
        _field("", *_reasons("calls", one.stat.refused_calls)),
    ]


def _reasons(what: str, counts: Mapping[str, int]) -> Line:
    """Return counts by reason; those above 0 stand out."""
    found: list[draw.Piece] = [(f"{what}:", PLAIN)]
    for reason, count in counts.items():
        found.append((f" {reason} {count}", ALERT if count else PLAIN))
    return draw.joined(found)


def _charts(one: Slice, total: int, pen: Pen) -> list[Line]:
    columns = max(10, total - LABELS)
    found: list[Line] = []
    for label, figures, meaning in (("GPU time", one.times, TIME), ("Memory", one.memories, MEMORY)):
        drawn = draw.chart(pen, figures, columns, CHART_ROWS, meaning)
        scale = ("100%", *[""] * (CHART_ROWS - 2), "0%")
        for row, (mark, line) in enumerate(zip(scale, drawn, strict=True)):
            head = label if row == 1 else ""
            text = draw.right(mark, LABELS - 1) if not head else draw.left(head, LABELS - 1)
            found.append(((f"{text} ", LABEL), *line))
    return found


def _processes(processes: Sequence[Process], total: int) -> list[Line]:
    if not processes:
        return [_field("Processes", ("none that holds memory", PLAIN))]
    columns = max(10, total - 10 - 12 - 10 - 3)
    heading = f"{'PID':>10} {'USER':<12} {'MEMORY':>10} COMMAND"
    rows = [
        f"{one.pid:>10} {draw.left(one.user or draw.UNKNOWN, 12)} {draw.mib(one.held):>10} "
        f"{draw.cut(one.command or draw.UNKNOWN, columns)}"
        for one in processes
    ]
    return [((draw.left(heading, total), HEADING),), *(((row, PLAIN),) for row in rows)]
