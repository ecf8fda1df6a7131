# SPDX-License-Identifier: Apache-2.0
"""cgpu doctor: arguments, and the only place that prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.install.commands.doctor import fixes, report
from cgpu.install.commands.doctor.examine import examine
from cgpu.install.node.report import look

EXIT_PROBLEM = 1


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    out = Parser(
        prog="cgpu doctor",
        description="Check this node, and say what helps. Exits 0 when there is no problem.",
    )
    out.add_argument("--json", action="store_true", help="one JSON document")
    out.add_argument("--all", action="store_true", help="also show what is well, and what was skipped")
    out.add_argument(
        "--fix",
        action="store_true",
        help="mend what ends no container and starts no engine, then check again",
    )
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when there is no problem, else 1."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except CgpuError as error:
        print(f"cgpu doctor: {error}", file=sys.stderr)
        return EXIT_PROBLEM


def _run(options: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise CgpuError("only root reaches what is to be checked: sudo cgpu doctor")
    now = look()
    found, fixed = examine(now), []
    if options.fix:
        for line in fixes.mend(now, found):
            fixed.append(line)
            if not options.json:
                print(f"fixed: {line}")
        if fixed:
            now = look()
            found = examine(now)
    if options.json:
        sys.stdout.write(report.as_json(now, found, fixed))
    else:
        sys.stdout.write(report.as_text(found, everything=options.all))
    return 0 if report.is_good(found) else EXIT_PROBLEM
