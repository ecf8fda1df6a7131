# SPDX-License-Identifier: Apache-2.0
"""Measure how fast Kubernetes places pods with claims of parts of GPUs, and what its components take for it.

Beside that the same pods without claims. Needs root and the namespaces of scripts/kubernetes/bench, which
`make bench-kubernetes` runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.kubernetes.plane import plane
from benchmarks.kubernetes.report import about, table
from benchmarks.kubernetes.steps import VARIANTS, Extent, Result, Runner, Step, planned
from tests.kubernetes.programs import cache

VERSION = "1.36"


def say(text: str) -> None:
    print(f"bench-kubernetes: {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measured(plan: Sequence[list[Step]], extent: Extent, version: str, logs: Path) -> Iterator[Result]:
    """Yield what each step gives; a control plane that fails is said, and the others go on."""
    for steps in plan:
        with plane(cache() / version, version, logs) as one, one.running() as loader:
            try:
                for result in Runner(one, loader, extent, say).run(steps):
                    say(table([result]).splitlines()[-1])
                    yield result
            except (RuntimeError, AssertionError) as error:
                say(f"{steps[0].variant}, {steps[0].nodes} nodes: {error}")


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-kubernetes", description=__doc__)
    usual = Extent()
    parser.add_argument("--version", default=VERSION, help="of Kubernetes")
    parser.add_argument("--nodes", type=int, default=usual.nodes, help="at most")
    parser.add_argument(
        "--filled", type=int, default=usual.filled, help="pods that are there before, at most"
    )
    parser.add_argument("--pods", type=int, default=usual.pods, help="that are placed in each measurement")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="for a measurement, at most")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="only this one")
    parser.add_argument("--profiles", type=Path, help="write CPU profiles of the scheduler there")
    parser.add_argument("--logs", type=Path, default=Path("reports/bench-kubernetes"))
    parser.add_argument("--out", type=Path, help="write the table there as well")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    chosen = options(arguments)
    extent = Extent(chosen.nodes, chosen.filled, chosen.pods, chosen.seconds, chosen.profiles)
    plan = [steps for steps in planned(extent) if not chosen.variant or steps[0].variant in chosen.variant]
    before, began = os.getloadavg()[0], time.monotonic()
    results = list(measured(plan, extent, chosen.version, chosen.logs))
    minutes = (time.monotonic() - began) / 60
    text = "\n".join([about(chosen.version, before, minutes), "", table(results), ""])
    print(text)
    if chosen.out:
        chosen.out.write_text(text)
    return 0 if len(results) == sum(map(len, plan)) else 1


if __name__ == "__main__":
    sys.exit(main())
