# SPDX-License-Identifier: Apache-2.0
"""cgpu events: which slices have started, were refused and have ended."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from cgpu import paths
from cgpu.arguments import Parser, exit_status
from cgpu.errors import CgpuError
from cgpu.events.event import Event
from cgpu.events.render import Table, as_json
from cgpu.events.sources import KernelLog, LogFile
from cgpu.events.story import FILTERS, Filters, Story, filters
from cgpu.events.times import moment
from cgpu.smi import names

POLL_S: Final = 0.25
AGAIN_S: Final = 1.0  # a container that has just started is not in its engine's list yet
NONE: Final = (
    "there are none since the node was started; the first slice makes one: cgpu run --mem 1G -- cgpu-smi"
)


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu events",
        description="Show which slices have started, were refused and have ended, with the most memory that "
        "each had, and what became of GPUs and of the engine.",
        examples=(
            "cgpu events --since 2h",
            "cgpu events -f --filter gpu=0",
            "cgpu events --filter event=refused --filter pod=shop/web",
            "cgpu events --format json",
        ),
        meant={
            "-n": "--since",
            "--tail": "--since",
            "-w": "--follow",
            "--watch": "--follow",
            "-o": "--format",
        },
    )
    made.add_argument(
        "--since",
        metavar="TIME",
        type=moment,
        help="only events from then on: 10m, 2h or 1d12h ago, a date, or a time of RFC 3339",
    )
    made.add_argument(
        "--until", metavar="TIME", type=moment, help="only events up to then, in the same forms"
    )
    made.add_argument(
        "-f", "--follow", action="store_true", help="go on with what happens, until interrupted or --until"
    )
    made.add_argument(
        "-F",
        "--filter",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="only events with this value; "
        + "; ".join(f"{key}: {what}" for key, what in FILTERS.items())
        + ". Of two values for one key either will do",
    )
    made.add_argument(
        "--format",
        choices=("table", "json"),
        default="table",
        help="table (the default), or json: one object a line",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    made = parser()
    options = made.parse_args(arguments)
    try:
        wanted = filters(options.filter)
    except CgpuError as error:
        made.error(str(error))
    return exit_status("cgpu events", lambda: run(options, wanted))


def run(options: argparse.Namespace, wanted: Filters) -> None:
    """Do what the options say. Raises CgpuError."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    table = None if options.format == "json" else Table(columns)
    # Also of containers that have ended.
    story = Story(names.Directory(again_s=AGAIN_S, ended=True).names)
    shown = 0
    log = LogFile(paths.EVENTS)
    with closing(KernelLog(paths.KERNEL_LOG)) as kernel:
        while True:
            events = [one for one in story.follow(log.poll() + kernel.poll()) if is_in(one, options)]
            shown += show(filter(wanted.match, events), table, is_first=shown == 0)
            if not options.follow or (options.until is not None and datetime.now(UTC) > options.until):
                break
            time.sleep(POLL_S)
    if shown == 0 and not options.follow and not options.filter and options.since is options.until is None:
        print(f"cgpu events: {NONE}", file=sys.stderr)


def is_in(event: Event, options: argparse.Namespace) -> bool:
    """Tell whether an event is of the time that is asked for."""
    return (options.since is None or event.time >= options.since) and (
        options.until is None or event.time <= options.until
    )


def show(events: Iterator[Event], table: Table | None, *, is_first: bool) -> int:
    """Print events; return how many. The table's head stands above the first one."""
    count = 0
    for event in events:
        if table is not None and is_first and count == 0:
            print(table.head())
        print(as_json(event) if table is None else table.row(event))
        count += 1
    sys.stdout.flush()
    return count


if __name__ == "__main__":
    sys.exit(main())
