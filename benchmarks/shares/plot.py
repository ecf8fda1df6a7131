# SPDX-License-Identifier: Apache-2.0
"""Share of the GPU against time, for each policy, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from benchmarks.shares.binding import (
    INSTRUCTION,
    MS,
    SECOND,
    US,
    Case,
    Container,
    Harness,
    Running,
    Step,
)
from benchmarks.shares.cases import COSTS
from benchmarks.shares.changes import Apply, to_policy
from tests.policies import FIXED, SOFT, WEIGHT, policies

Samples = Sequence[Sequence[int]]
"""Time used by each container, after each window."""
WINDOW = 100 * MS
DURATION = 8 * SECOND
MAX_INST = 8
WIDTH, HEIGHT = 640, 260
LEFT, TOP, RIGHT, BOTTOM = 46, 34, 150, 34
COLOURS = ("#0072b2", "#d55e00", "#009e73")  # told apart by the colour-blind too
KERNELS = (Step(200 * US, INSTRUCTION, 10),)


def members(*, high: bool = False) -> list[tuple[str, Container]]:
    """Containers of the plot: one is present but idle from 4 s to 5.5 s; the first is alone from 7 s on."""
    third = Container(2, KERNELS, join=2 * SECOND, end=2 * SECOND, leave=5500 * MS, highprio=high)
    return [
        ("A, weight 1", Container(1, KERNELS)),
        ("B, weight 2", Container(2, KERNELS, join=SECOND, leave=7 * SECOND)),
        ("C, high priority" if high else "C, weight 2", third),
    ]


LIVE: tuple[tuple[str, Apply], ...] = (
    ("C joins", lambda on: on.join(2, Container(2, KERNELS))),
    ("A: weight 4", lambda on: on.change(0, 4, highprio=False)),
    ("policy 3", to_policy(FIXED)),
    ("policy 4", to_policy(SOFT)),
    ("C: high prio", lambda on: on.change(2, 2, highprio=True)),
    ("prio_ratio 50", lambda on: on.set(replace(on.case, prio_ratio=50))),
    ("B leaves", lambda on: on.leave(1)),
)
"""Change at each full second, from policy 2 with A of weight 1 and B of weight 2 on."""


def live(harness: Harness, slice_: int) -> str:
    """Return a plot of changes under load."""
    case = Case(WEIGHT, [], DURATION, slice_, 10, costs=COSTS)
    samples: list[list[int]] = []
    with Running(harness, case) as running:
        running.join(0, Container(1, KERNELS))
        running.join(1, Container(2, KERNELS))
        for _, apply in (*LIVE, ("", None)):
            for _ in range(SECOND // WINDOW):
                running.advance(WINDOW)
                samples.append([running.figures(slot).used for slot in range(3)])
            if apply:
                apply(running)
    marks = [name for name, _ in LIVE]
    return draw("Policy 2, then changes under load: share of the GPU", ("A", "B", "C"), samples, marks)


def windows(samples: Samples, index: int) -> list[float]:
    """The share of one container in each window."""
    total = [0, *(row[index] for row in samples)]
    return [(after - before) / WINDOW for before, after in pairwise(total)]


def x(ns: float) -> float:
    return LEFT + ns / DURATION * (WIDTH - LEFT - RIGHT)


def y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def steps(values: Sequence[float]) -> str:
    """A line that is level within each window."""
    points = []
    for index, value in enumerate(values):
        height = f"{y(min(1.0, value)):.1f}"
        points += [f"{x(index * WINDOW):.1f},{height}", f"{x((index + 1) * WINDOW):.1f},{height}"]
    # A point between two others at its height says nothing.
    kept = [
        point
        for before, point, after in zip(["", *points], points, [*points[1:], ""], strict=False)
        if not before.split(",")[1:] == point.split(",")[1:] == after.split(",")[1:]
    ]
    return " ".join(kept)


def text(left: object, top: object, words: str, attributes: str) -> str:
    return f'<text x="{left}" y="{top}" {attributes}>{words}</text>'


def grid() -> Iterator[str]:
    for tenth in range(0, 11, 2):
        at = f"{y(tenth / 10):.1f}"
        yield f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="#ccc"/>'
        yield text(LEFT - 6, at, f"{tenth * 10} %", 'text-anchor="end" dominant-baseline="middle"')
    for second in range(DURATION // SECOND + 1):
        yield text(f"{x(second * SECOND):.1f}", HEIGHT - BOTTOM + 16, f"{second} s", 'text-anchor="middle"')


def draw(title: str, names: Sequence[str], samples: Samples, marks: Sequence[str] = ()) -> str:
    """Return a plot; marks: the changes at 1 s, 2 s and so on."""
    box = f"0 0 {WIDTH} {HEIGHT}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT, 20, title, 'font-size="14"'),
        *grid(),
    ]
    for second, mark in enumerate(marks, 1):
        at = f"{x(second * SECOND):.1f}"
        lines += [
            f'<path d="M{at} {TOP}V{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="3 3"/>',
            text(at, TOP - 3, mark, 'text-anchor="middle" font-size="9" fill="#555"'),
        ]
    for index, name in enumerate(names):
        colour, height = COLOURS[index], TOP + 12 + 18 * index
        line = steps(windows(samples, index))
        lines += [
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>',
            f'<path d="M{WIDTH - RIGHT + 12} {height}h18" stroke="{colour}" stroke-width="3"/>',
            text(WIDTH - RIGHT + 36, height, name, 'dominant-baseline="middle"'),
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def plots(harness: Harness, slice_: int) -> Iterator[tuple[str, str]]:
    """Yield names of files and their contents."""

    def one(policy: int, title: str, *, high: bool = False) -> str:
        names, containers = zip(*members(high=high), strict=True)
        case = Case(policy, containers, DURATION, slice_, MAX_INST, costs=COSTS, sample=WINDOW)
        return draw(title, names, harness.run(case).samples)

    for policy, known in policies().items():
        yield (
            f"shares-policy-{policy}.svg",
            one(policy, f"Policy {policy}, {known.name}: share of the GPU"),
        )
    yield (
        "shares-priority.svg",
        one(WEIGHT, "Policy 2 with a container of high priority (prio_ratio 80)", high=True),
    )
    yield "shares-changes.svg", live(harness, slice_)


def write(harness: Harness, slice_: int, directory: Path) -> list[Path]:
    """Write the plots into a folder."""
    directory.mkdir(parents=True, exist_ok=True)
    out = []
    for name, text in plots(harness, slice_):
        (directory / name).write_text(text)
        out.append(directory / name)
    return out
