# SPDX-License-Identifier: Apache-2.0
"""cgpu check-driver: its arguments, and the only place of it that prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from cgpu.arguments import Parser
from cgpu.check_driver.run import DEV, Outcome, run
from cgpu.errors import CgpuError, one_line
from cgpu.kmod.abi.rows.files import Rows, read

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


def lines(outcome: Outcome, rows: Rows) -> Iterator[str]:
    """Give what is printed: the version, a line for each check, and the number of checks of each verdict."""
    row = rows.of(outcome.driver)
    known = f"in {row.file}" if row else "in the table"
    unknown = f"not in the table: checked with the layouts of {outcome.table}"
    yield f"driver {outcome.driver}, {known if outcome.known else unknown}"
    for check in outcome.checks:
        reason = f": {check.reason}" if check.reason else ""
        yield one_line(f"{WORDS[check.verdict]:<8}{check.card}: {check.name}{reason}")
    counts = [f"{len(outcome.with_verdict(verdict))} {verdict}" for verdict in WORDS]
    yield ", ".join(counts)


def main(arguments: Sequence[str]) -> int:
    """Run cgpu check-driver and return its exit status."""
    options = parser().parse_args(arguments)
    rows = read()
    try:
        outcome = run(options.dev, rows.text())
    except CgpuError as error:
        print(f"cgpu check-driver: {error}", file=sys.stderr)
        return EXIT_FAILED
    for line in lines(outcome, rows):
        print(line)
    return EXIT_FAILED if outcome.with_verdict("failed") else 0
