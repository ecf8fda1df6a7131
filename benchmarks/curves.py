# SPDX-License-Identifier: Apache-2.0
"""Milliseconds against a number, for two things that are compared, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH, PANEL = 640, 220
LEFT, TOP, RIGHT, BOTTOM = 46, 34, 90, 26
COLOURS = ("#0072b2", "#d55e00")  # told apart by the colour-blind too
LINES = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """One panel. points: a number, and the milliseconds of both things there."""

    title: str
    points: Sequence[tuple[float, ...]]


def draw(names: Sequence[str], curves: Sequence[Curve]) -> str:
    """Return a picture with the panels below each other, all from 0 to the same height."""
    most = max(value for curve in curves for _, *values in curve.points for value in values) * 1.1
    box = f"0 0 {WIDTH} {PANEL * len(curves)}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{PANEL * len(curves)}" fill="#fff"/>',
    ]
    for number, curve in enumerate(curves):
        lines += panel(names, curve, number * PANEL, most)
    return "\n".join([*lines, "</svg>"]) + "\n"


def panel(names: Sequence[str], curve: Curve, top: int, most: float) -> Iterator[str]:
    first, last = curve.points[0][0], curve.points[-1][0]

    def x(number: float) -> float:
        return LEFT + (number - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return top + TOP + (1 - value / most) * (PANEL - TOP - BOTTOM)

    yield text(LEFT, top + 20, curve.title, 'font-size="14"')
    for line in range(LINES + 1):
        value = most * line / LINES
        yield f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#ccc"/>'
        yield text(LEFT - 6, y(value), f"{value:.0f} ms", 'text-anchor="end" dominant-baseline="middle"')
        number = first + (last - first) * line / LINES
        yield text(x(number), top + PANEL - 8, f"{number:.0f}", 'text-anchor="middle"')
    for index, name in enumerate(names):
        points = " ".join(f"{x(point[0]):.1f},{y(point[index + 1]):.1f}" for point in curve.points)
        yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[index]}" stroke-width="1.8"/>'
        height = top + TOP + 12 + 18 * index
        yield f'<path d="M{WIDTH - RIGHT + 10} {height}h18" stroke="{COLOURS[index]}" stroke-width="3"/>'
        yield text(WIDTH - RIGHT + 34, height, name, 'dominant-baseline="middle"')


def text(left: float, top: float, words: str, attributes: str) -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" {attributes}>{words}</text>'
