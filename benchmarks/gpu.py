# SPDX-License-Identifier: Apache-2.0
"""Cost of a slice for a program on a real GPU: a copy on the card and a matrix product, with and without.

Needs root, a GPU, PyTorch in the interpreter CGPU_GPU_PYTHON (python3), and no engine that runs. Without and
with a slice take turns; the ratio of each turn is of two runs that follow each other.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu.node import (
    CONTROL_NODE,
    ROOT,
    Node,
    NodeError,
    driver_version,
    environment,
    is_known,
    program,
)

MEM = "6G"
RATES = {"copy_gb_s": "copy on the card, GB/s", "product_tflop_s": "product of 8192x8192 bfloat16, TFLOP/s"}
GOAL = 0.01
COMMAND = ("frameworks", "speed")


@dataclass(frozen=True)
class Turn:
    """One run without a slice, and one in it."""

    plain: dict[str, Any]
    sliced: dict[str, Any]

    def ratio(self, rate: str) -> float:
        """Return how much of a rate is left in the slice."""
        return float(self.sliced[rate]) / float(self.plain[rate])


def plain() -> dict[str, Any]:
    """Measure without a slice. Raises NodeError."""
    command = program(*COMMAND)
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        raise NodeError(done.stderr.strip().splitlines()[-1])
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def sliced(node: Node) -> dict[str, Any]:
    """Measure in a slice. Raises NodeError."""
    with node.slice(MEM) as one:
        return one.run(program(*COMMAND))


def row(rate: str, turns: Sequence[Turn]) -> str:
    """Return a line of the table."""
    without = statistics.median(float(turn.plain[rate]) for turn in turns)
    within = statistics.median(float(turn.sliced[rate]) for turn in turns)
    ratios = [turn.ratio(rate) for turn in turns]
    median = statistics.median(ratios)
    verdict = "yes" if median >= 1 - GOAL else "NO"
    spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
    return f"| {RATES[rate]} | {without:.1f} | {within:.1f} | {median:.4f} | {spread} | {verdict} |"


def report(turns: Sequence[Turn], driver: str, day: dt.date) -> str:
    """Return the result as a document."""
    about = turns[0].plain
    table = "" if is_known(driver) else " (not in the table of versions: allow_unknown_driver: true)"
    lines = [
        f"# Results of {day.isoformat()} on a GPU",
        "",
        f"{about['device']}, driver {driver}{table}, CUDA {about['cuda']}, PyTorch {about['torch']},",
        f"Linux {os.uname().release}, engine cgpud, slice of {MEM}.",
        "",
        f"`benchmarks/gpu.py --turns {len(turns)}`: medians; the ratio is that of the two runs of a turn.",
        "",
        f"| rate | without | in a slice | median ratio | of all turns | within {GOAL:.0%} |",
        "|---|---|---|---|---|---|",
        *(row(rate, turns) for rate in RATES),
    ]
    return "\n".join(lines) + "\n"


def measure(driver: str, turns: int) -> list[Turn]:
    """Start an engine and measure so many turns. Raises NodeError."""
    with tempfile.TemporaryDirectory(prefix="cgpu-gpu-") as directory:
        node = Node(Path(directory), driver)
        try:
            node.use(enforce=True)
            return [Turn(plain(), sliced(node)) for _ in range(turns)]
        finally:
            node.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit status 1 when it cannot be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file for the result, such as benchmarks/results/gpu.md")
    options = parser.parse_args(arguments)
    if not CONTROL_NODE.exists():
        print(f"benchmarks.gpu: skipped: {CONTROL_NODE} is not there: no NVIDIA GPU")
        return 0
    try:
        driver = driver_version()
        turns = measure(driver, options.turns)
    except (NodeError, OSError, subprocess.SubprocessError) as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 1
    text = report(turns, driver, dt.datetime.now(tz=dt.UTC).date())
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
