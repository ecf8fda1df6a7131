# SPDX-License-Identifier: Apache-2.0
"""
The published accuracy of cGPU, rebuilt as workloads: ResNet50 in two containers of weights 1:2 on one A10.

The tables give images per second and batch sizes, and nothing of kernels. Assumptions:

- the two containers together fill the card: a batch takes batch / (sum of both rates) of its time;
- a training step has 400 kernels, an inference 60; a tenth of them, the long ones, have half of the time;
- training launches ahead of the card; inference waits for each batch, and 20 us pass before the next begins;
- three kinds of kernels: preemptible at each instruction, at the end of each of 8 waves of thread blocks, and
  not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.shares.binding import (
    INSTRUCTION,
    SECOND,
    US,
    Case,
    Container,
    Harness,
    Running,
    Step,
)
from benchmarks.shares.cases import DURATION, TABLE_BOUND, Finding
from tests.policies import FIXED, SOFT, WEIGHT

WAVES = 8
LONG = 10  # one kernel in so many
KINDS = ("instruction", "block", "whole")


@dataclass(frozen=True)
class Row:
    """One line of the tables: images per second of both containers."""

    framework: str
    batch: int
    first: float
    second: float

    @property
    def kernels(self) -> int:
        return 400 if self.framework == "TensorFlow" else 60

    @property
    def pause(self) -> int:
        return 0 if self.framework == "TensorFlow" else 20 * US


TABLES = (
    Row("TensorFlow", 16, 151, 307),
    Row("TensorFlow", 32, 204, 418),
    Row("TensorFlow", 64, 247, 503),
    Row("TensorFlow", 128, 257, 516),
    Row("TensorRT", 1, 568.05, 1132.08),
    Row("TensorRT", 2, 940.36, 1884.12),
    Row("TensorRT", 4, 1304.03, 2571.91),
    Row("TensorRT", 8, 1586.87, 3055.66),
    Row("TensorRT", 16, 1783.91, 3381.72),
    Row("TensorRT", 32, 1989.28, 3695.88),
    Row("TensorRT", 64, 2105.81, 3889.35),
    Row("TensorRT", 128, 2205.25, 3901.94),
)


def steps(row: Row, kind: str) -> tuple[Step, ...]:
    """The kernels of one batch."""
    whole = row.batch * SECOND / (row.first + row.second)
    long, short = row.kernels // LONG, row.kernels - row.kernels // LONG

    def step(count: int, pause: int = 0) -> Step:
        length = max(1, round(whole / 2 / count))
        grain = {"instruction": INSTRUCTION, "block": max(1, length // WAVES), "whole": 0}[kind]
        return Step(length, grain, count, pause)

    return step(short), step(long, row.pause)


@dataclass(frozen=True)
class Rates:
    """Images per second of two containers of weights 1:2."""

    row: Row
    kind: str
    policy: int
    first: float
    second: float

    @property
    def ratio(self) -> float:
        return self.second / self.first

    @property
    def error(self) -> float:
        return abs(self.ratio / 2 - 1)


def measure(harness: Harness, row: Row, kind: str, policy: int, common: Case) -> Rates:
    """Run one line of the tables."""
    program = steps(row, kind)
    containers = [Container(1, program), Container(2, program)]
    case = replace(common, policy=policy, containers=containers, max_inst=3)
    with Running(harness, case) as running:
        running.advance(DURATION)
        first, second = (
            running.figures(slot).completed / row.kernels * row.batch * SECOND / DURATION for slot in (0, 1)
        )
    return Rates(row, kind, policy, first, second)


def run(harness: Harness, common: Case) -> list[Rates]:
    """Run both tables under the policies that know weights."""
    return [
        measure(harness, row, kind, policy, common)
        for row in TABLES
        for kind in KINDS
        for policy in (WEIGHT, FIXED, SOFT)
    ]


def findings(rates: list[Rates]) -> Iterator[Finding]:
    """Judge them. Policy 4 gives away what a container leaves, so a ratio is nothing that it promises."""
    for one in rates:
        what = f"{one.row.framework} batch {one.row.batch}, {one.kind}: 1:2"
        yield Finding(one.policy, what, one.error, None if one.policy == SOFT else TABLE_BOUND)


def lines(rates: list[Rates]) -> Iterator[str]:
    """The tables, published and rebuilt."""
    kinds = " / ".join(KINDS)
    yield f"{'ResNet50 on an A10':16} {'published':>18}   simulated: {kinds}"
    heads = f"{'batch':>5} {'1':>7} {'2':>7} {'ratio':>5}"
    yield f"{'':10} {heads}   {'1':>7} {'2':>7}  {'ratio under policy 2':19}    ratio under policy 4"
    for row in TABLES:
        mine = {(one.kind, one.policy): one for one in rates if one.row == row}
        shown = mine["instruction", WEIGHT]
        ratios = "  ".join(f"{mine[kind, WEIGHT].ratio:5.3f}" for kind in KINDS)
        soft = "  ".join(f"{mine[kind, SOFT].ratio:5.3f}" for kind in KINDS)
        yield (
            f"{row.framework:10} {row.batch:5} {row.first:7.0f} {row.second:7.0f}"
            f" {row.second / row.first:5.2f}"
            f"   {shown.first:7.0f} {shown.second:7.0f}  {ratios}    {soft}"
        )
