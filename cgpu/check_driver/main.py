# SPDX-License-Identifier: Apache-2.0
"""cgpu check-driver: its arguments, and the only place of it that prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from cgpu.arguments import Parser
from cgpu.check_driver.run import DEV, Outcome, run
from cgpu.errors import CgpuError, one_line

EXIT_FAILED = 1
WORDS = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the command line."""
    made = Parser(
        prog="cgpu check-driver",
        description="Check whether the driver understands its calls as the engine takes them.",
        epilog="Exit status: 0 when no check failed, else 1.",
        examples=("cgpu check-driver",),
    )
    made.add_argument("--dev", metavar="DIR", default=DEV, help=f"where its nodes are (default {DEV})")
    return made


def lines(outcome: Outcome) -> Iterator[str]:
    """Give what is printed: the version, a line for each check, and the number of checks of each verdict."""
    layouts = "" if outcome.known else f" not in the table: checked with the layouts of {outcome.table}"
    yield f"driver {outcome.driver}," + (layouts or " in the table")
    for check in outcome.checks:
        reason = f": {check.reason}" if check.reason else ""
        yield one_line(f"{WORDS[check.verdict]:<8}{check.card}: {check.name}{reason}")
    counts = [f"{len(outcome.with_verdict(verdict))} {verdict}" for verdict in WORDS]
    yield ", ".join(counts)


def main(arguments: Sequence[str]) -> int:
    """Run cgpu check-driver and return its exit status."""
    options = parser().parse_args(arguments)
    try:
        outcome = run(options.dev)
    except CgpuError as error:
        print(f"cgpu check-driver: {error}", file=sys.stderr)
        return EXIT_FAILED
    for line in lines(outcome):
        print(line)
    return EXIT_FAILED if outcome.with_verdict("failed") else 0
