# SPDX-License-Identifier: Apache-2.0
"""The table of results: when each shard last ran, on which commit, how long, and how its tests ended."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable

from tests.lanes.run import Result
from tests.lanes.table import ROOT, LaneError
from tests.lanes.turn import ask_git

OWN = "tests/RESULTS.md"
RESULTS = ROOT / OWN
START = """# Results

`make test-release` writes the row of each shard that it ran. git has the older ones.

| shard | date | commit | seconds | processor seconds | passed | failed | known to fail | skipped |
|---|---|---|---|---|---|---|---|---|
"""
WHOLE = re.compile(re.escape(START) + r"(\| [\w-]+ \|( [^|\n]*\|){8}\n)*")


def read_rows() -> dict[str, str]:
    """Return the row of each shard; none if there is no file. Raises LaneError for one that is not ours."""
    text = RESULTS.read_text() if RESULTS.exists() else START
    if not WHOLE.fullmatch(text):
        raise LaneError(f"{RESULTS}: it is not as this program writes it; see: git diff, git log")
    return {line.split(" ", 2)[1]: line for line in text.removeprefix(START).splitlines()}


def record(shards: Iterable[str], name: str, commit: str, result: Result) -> None:
    """Write the row of a shard if it was run, and one for each shard that has none; the others' stay."""
    rows = read_rows() | ({name: row_of(name, commit, result)} if result.was_run else {})
    lines = [rows.get(shard, f"| {shard} | never in this form | | | | | | | |") for shard in sorted(shards)]
    part = RESULTS.with_suffix(".part")
    part.write_text(START + "\n".join([*lines, ""]))
    part.replace(RESULTS)


def row_of(name: str, commit: str, result: Result) -> str:
    """Return the row of a shard that was run."""
    summary = result.summary
    counts = " | ".join(str(summary.count(kind)) for kind in ("passed", "failed", "known", "skipped")) + " |"
    verdict = "" if result.succeeded or summary.count("failed") else " (a command failed)"
    verdict += "" if result.is_whole else " (in part)"
    today = dt.datetime.now(dt.UTC).date()
    times = f"{result.seconds:.0f} | {result.processor_seconds:.0f}"
    return f"| {name} | {today} | {commit}{verdict} | {times} | {counts}"


def read_commit() -> str:
    """Return the abbreviated commit of the checkout, with + if files differ from it or are not in it."""
    changed = ask_git("status", "--porcelain", "--untracked-files=all", "--", ".", f":(exclude){OWN}")
    return ask_git("rev-parse", "--short=8", "HEAD").strip() + ("+" if changed else "")
