# SPDX-License-Identifier: Apache-2.0
"""Run a lane of tests: python -m tests.lanes check | test | release [SHARD...] | shards | turn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.lanes import results, run
from tests.lanes.report import tell
from tests.lanes.table import LaneError, Table, read_table
from tests.lanes.turn import choose_shard, count_commits


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a test or a command failed, 2 if it cannot be done."""
    asked = parser().parse_args(arguments)
    try:
        table = read_table()
        match asked.lane:
            case "shards":
                print(*(f"{shard.name:15} {shard.says}" for shard in table.shards), sep="\n")
                return 0
            case "turn":
                print(choose_shard(table, count_commits()).name)
                return 0
            case "release":
                return run_shards(table, asked.shards or [shard.name for shard in table.shards])
    except (LaneError, OSError) as error:
        print(f"tests.lanes: {error}", file=sys.stderr)
        return 2
    result = run.run_check(table) if asked.lane == "check" else run.run_test(table)
    return end(asked.lane, result)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m tests.lanes", description=__doc__)
    lanes = made.add_subparsers(dest="lane", required=True)
    lanes.add_parser("check", help="what one runs after each edit")
    lanes.add_parser("test", help="all that no shard runs in its place")
    release = lanes.add_parser("release", help="the named shards, or all")
    release.add_argument("shards", nargs="*", metavar="SHARD")
    lanes.add_parser("shards", help="list the shards")
    lanes.add_parser("turn", help="name the shard whose turn it is, by the number of commits")
    return made


def run_shards(table: Table, names: Sequence[str]) -> int:
    """Run shards one after the other; write each result into the table of results. Raises LaneError."""
    known = [shard.name for shard in table.shards]
    for name in names:
        if name not in known:
            raise LaneError(
                f"shard {name}: expected one of {', '.join(known)}; see: python -m tests.lanes shards"
            )
    results.read_rows()
    failed = 0
    for name in names:
        print(f"shard {name}: {table.shard(name).says}", flush=True)
        commit = results.read_commit()
        result = run.run_shard(table.shard(name))
        failed |= end(name, result)
        results.record(known, name, commit, result)
    return failed


def end(name: str, result: run.Result) -> int:
    """Print how a lane or a shard ended; return the status of this program."""
    print(*tell(result.summary), sep="\n")
    count = result.summary.count
    print(f"{name}: {result.seconds:.0f} s, {result.processor_seconds:.0f} s of processors")
    counts = f"{count('passed')} passed, {count('failed')} failed, {count('known')} known to fail"
    print(f"{name}: {counts}, {count('skipped')} skipped", flush=True)
    if not result.is_whole:
        print(f"{name}: {'not all of it was' if result.was_run else 'not'} run, see above", flush=True)
    return 0 if result.succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
