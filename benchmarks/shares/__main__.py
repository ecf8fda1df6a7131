# SPDX-License-Identifier: Apache-2.0
"""
Shares of GPU time under each policy, on a simulated card and in virtual time.

The core's scheduler decides, the simulated card executes, and each container's time is compared with its
policy's share, also while containers come, go and change. The times of the card (another context, a cut, a
scheduling control) are estimates, and the kernels of the published tables are assumed:
benchmarks/shares/tables.py says how. Exits with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.shares import cases, changes, newcomers, tables
from benchmarks.shares.binding import US, Harness
from benchmarks.shares.cases import Finding
from tests.policies import policies


def about(slice_: int) -> Iterator[str]:
    costs = cases.COSTS
    yield (
        f"slice {slice_ // US} us; estimates for the card: context {costs.switch // US} us, cut of a kernel"
        f" {costs.save // US} us, control {costs.command // US} us"
    )


def summary(findings: Sequence[Finding]) -> Iterator[str]:
    """One line for each policy and kind of figure: the worst."""
    yield f"{'policy':22} {'worst of':34} {'error':>9} {'bound':>7}  where"
    for policy, known in policies().items():
        worst: dict[str, Finding] = {}
        for one in findings:
            kind = kind_of(one)
            if one.policy == policy and (kind not in worst or one.error > worst[kind].error):
                worst[kind] = one
        for kind, one in worst.items():
            bound = "-" if one.bound is None else f"{one.bound:.4f}"
            mark = "  MISSED" if one.missed else ""
            name = f"{policy} {known.name}"
            yield f"{name:22} {kind:34} {one.error:9.4f} {bound:>7}  {one.what.rsplit(': ', 1)[0]}{mark}"


def kind_of(finding: Finding) -> str:
    """Name of the compared figure, without the case."""
    if ": 1:2" in finding.what:
        return "1:2 of the published tables"
    case, figure = finding.what.rsplit(": ", 1)
    mix = "" if case.startswith("priority") else case.split(" ", 1)[1]
    return f"{figure}, {mix}" if mix and figure == "share" else figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit status 1 when a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shares", description=__doc__)
    parser.add_argument("--slice", type=int, metavar="US", help="microseconds of one unit of weight")
    parser.add_argument(
        "--no-controls", action="store_true", help="leave the card alone: every bound has to fail then"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cgpu-shares-") as name:
        harness = Harness(Path(name))
        slice_ = options.slice * US if options.slice else harness.slice
        print("\n".join(about(slice_)))
        common = cases.base(slice_, controls=not options.no_controls)
        rates = tables.run(harness, common)
        findings = [
            *cases.mixes(harness, common),
            *cases.unevenly(harness, common),
            *cases.priority(harness, common),
            *changes.findings(harness, common),
            *newcomers.findings(harness, common),
            *tables.findings(rates),
        ]
    missed = [
        f"missed: policy {one.policy}, {one.what}: {one.error:.4f}, not above {one.bound}"
        for one in findings
        if one.missed
    ]
    print("\n".join(["", *tables.lines(rates), "", *summary(findings), "", *missed]))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
