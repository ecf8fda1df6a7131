# SPDX-License-Identifier: Apache-2.0
"""cgpu gc: arguments, and the only place that prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from cgpu import paths
from cgpu.arguments import Parser
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, one_line
from cgpu.install.commands.gc.collect import Outcome, collect


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    out = Parser(
        prog="cgpu gc",
        description="Remove registrations whose container is gone; never one whose processes live.",
    )
    out.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    out.add_argument("--json", action="store_true", help="one JSON document")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when all engines answered, 1 after one line of error or for one that did not."""
    options = parser().parse_args(arguments)
    try:
        if os.geteuid() != 0:
            raise CgpuError("only root reaches the engine: sudo cgpu gc")
        outcome = collect(Tree(paths.tree(effective.load().tree)), dry_run=options.dry_run)
    except CgpuError as error:
        print(f"cgpu gc: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"dry_run": options.dry_run, **asdict(outcome)}, indent=1))
    else:
        _print(outcome, dry_run=options.dry_run)
    return 1 if outcome.silent else 0


def _print(outcome: Outcome, *, dry_run: bool) -> None:
    for one in outcome.judged:
        done = ("would be removed" if dry_run else "removed") if one.goes else "stays"
        print(one_line(f"{one.id}: {done}: {one.why}"))
    if not outcome.judged:
        print("no container is registered")
    for line in outcome.silent:
        print(f"cgpu gc: {one_line(line)}", file=sys.stderr)
