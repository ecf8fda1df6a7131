# SPDX-License-Identifier: Apache-2.0
"""Cost of a slice for a program on a real GPU: a copy on the card and a matrix product, with and without.

Needs root, a GPU, PyTorch in the interpreter CGPU_GPU_PYTHON (python3), and no engine that runs. Without and
with a slice take turns; the ratio of each turn is of two runs that follow each other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.gpu.node import CONTROL_NODE, ROOT, Node, NodeError, driver_version, environment, program

MEM = "6G"
RATES = {"copy_gb_s": "copy on the card, GB/s", "product_tflop_s": "product of 8192x8192 bfloat16, TFLOP/s"}
COMMAND = ("frameworks", "speed")


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


def measure(driver: str, turns: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Start an engine, and yield what each turn gives without a slice and in it. Raises NodeError."""
    with tempfile.TemporaryDirectory(prefix="cgpu-gpu-") as directory:
        node = Node(Path(directory), driver)
        try:
            node.use(enforce=True)
            for _ in range(turns):
                without = plain()
                with node.slice(MEM) as one:
                    yield without, one.run(program(*COMMAND))
        finally:
            node.stop()


def main() -> int:
    """Measure and print; exit status 1 when it cannot be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    if not CONTROL_NODE.exists():
        print(f"benchmarks.gpu: skipped: {CONTROL_NODE} is not there: no NVIDIA GPU")
        return 0
    try:
        driver = driver_version()
        turns = list(measure(driver, options.turns))
    except (NodeError, OSError, subprocess.SubprocessError) as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 1
    about = turns[0][0]
    print(f"{about['device']}, driver {driver}, CUDA {about['cuda']}, PyTorch {about['torch']}, {MEM}")
    for rate, what in RATES.items():
        without, within = ([float(one[rate]) for one in side] for side in zip(*turns, strict=True))
        ratios = [inside / outside for outside, inside in zip(without, within, strict=True)]
        medians = f"{statistics.median(without):.1f} without, {statistics.median(within):.1f} in a slice"
        spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
        print(f"{what}: {medians}, ratio {statistics.median(ratios):.4f} ({spread})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
