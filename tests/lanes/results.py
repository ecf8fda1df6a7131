# SPDX-License-Identifier: Apache-2.0
"""The table of results: when each shard last ran, on which commit, how long, and how its tests ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from tests.lanes.git import ask_git
from tests.lanes.run import Result
from tests.lanes.table import ROOT

RESULTS = ROOT / "tests/RESULTS.md"
HEAD = "| shard | date | commit | seconds | processor seconds | passed | failed | known to fail | skipped |"
RULE = "|---|---|---|---|---|---|---|---|---|"


def record(shards: Iterable[str], name: str, result: Result, path: Path = RESULTS) -> None:
    """Write the row of a shard if it was run, and one for each shard that has none; the others' stay."""
    text = path.read_text()
    before, _, rest = text.partition(f"{HEAD}\n{RULE}\n")
    rows = {line.split(" | ", 1)[0].removeprefix("| "): line for line in rest.splitlines()}
    if result.was_run:
        rows[name] = row_of(name, result)
    lines = [rows.get(shard, f"| {shard} | never in this form | | | | | | | |") for shard in sorted(shards)]
    path.write_text("\n".join([before + HEAD, RULE, *lines, ""]))


def row_of(name: str, result: Result) -> str:
    """Return the row of a shard that was run."""
    summary = result.summary
    counts = f"{summary.passed} | {summary.failed} | {summary.known} | {summary.skipped} |"
    verdict = "" if result.succeeded or summary.failed else " (a command failed)"
    verdict += "" if result.is_whole else " (in part)"
    today = dt.datetime.now(dt.UTC).date()
    times = f"{result.seconds:.0f} | {result.processor_seconds:.0f}"
    return f"| {name} | {today} | {commit()}{verdict} | {times} | {counts}"


def commit() -> str:
    """Return the abbreviated commit of the checkout, with + if files differ from it."""
    changed = ask_git("status", "--porcelain", "--untracked-files=no").splitlines()
    others = [line for line in changed if not line.endswith(RESULTS.name)]
    return ask_git("rev-parse", "--short=8", "HEAD").strip() + ("+" if others else "")
