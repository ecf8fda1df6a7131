# SPDX-License-Identifier: Apache-2.0
"""cgpu top: arguments, and whether a screen or lines of text are shown."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from time import sleep

from cgpu import paths
from cgpu.arguments import Parser, exit_status, seconds
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, show
from cgpu.smi.main import chosen
from cgpu.smi.publish import published
from cgpu.top import plain
from cgpu.top.choose import ORDERS
from cgpu.top.model import View
from cgpu.top.reading import Read, of_published, of_tree
from cgpu.top.sampler import FIRST_S, Sampler

DELAY_S = 2.0
LEAST_DELAY_S, MOST_DELAY_S = 0.2, 3600
MOST_BATCHES = 1_000_000_000
MISSING = (
    "the Python package textual is missing; install it: pip install 'opencgpu[top]'; "
    "without it, as text: cgpu top --once"
)


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu top",
        description="Show cards and slices live in the terminal, with bars and short histories. Where "
        "standard output is not a terminal, print one view as text.",
        examples=("cgpu top", "cgpu top --filter prod --sort memory", "cgpu top --batch 10 -d 5"),
        meant={"-b": "--batch", "-n": "--batch", "-l": "--delay", "-o": "--sort", "--id": "--gpu"},
    )
    form = made.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print one view as text and end")
    form.add_argument(
        "--batch", metavar="N", type=_number, help="print N views as text, one each delay, and end"
    )
    made.add_argument(
        "-d",
        "--delay",
        metavar="SECONDS",
        type=seconds(LEAST_DELAY_S, MOST_DELAY_S),
        default=DELAY_S,
        help=f"seconds between two views (default {DELAY_S:g})",
    )
    made.add_argument(
        "-i", "--gpu", metavar="GPU", help="only this GPU: its index, or its UUID or the start of it"
    )
    made.add_argument(
        "-F",
        "--filter",
        metavar="TEXT",
        default="",
        help="only slices whose container's name, with pod and namespace, or id has all words of TEXT",
    )
    made.add_argument(
        "-s",
        "--sort",
        metavar="COLUMN",
        choices=tuple(ORDERS),
        default="time",
        help=f"sort by {', '.join(ORDERS)} (default time)",
    )
    made.add_argument("--tree", metavar="DIR", help="the engine's tree, where it is not the usual one")
    return made


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MOST_BATCHES:
        return int(text)
    raise argparse.ArgumentTypeError(f"{show(text)}: expected a number of views between 1 and {MOST_BATCHES}")


def reader(options: argparse.Namespace) -> Read:
    """Return who reads: the tree, or for users who are not root what root publishes."""
    if options.tree is None and os.geteuid() != 0:
        return of_published(lambda: chosen(published(), options.gpu))
    return of_tree(
        lambda: Tree(options.tree or paths.tree(effective.load().tree)),
        lambda gpus: chosen(gpus, options.gpu),
    )


def is_screen(options: argparse.Namespace) -> bool:
    """Return whether a screen can be shown, and is wanted."""
    if options.once or options.batch is not None:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def batch(options: argparse.Namespace, views: int, sampler: Sampler) -> None:
    """Print views as text. Raises CgpuError when there is no engine at first; later a line says so."""
    _printed(options, sampler.sample(), first=True)  # rates are of two readings
    delay = min(FIRST_S, options.delay)
    for number in range(views):
        sleep(delay)
        text = _printed(options, sampler.sample(), first=number == 0)
        sys.stdout.write(text if number == 0 else f"\n{text}")
        sys.stdout.flush()
        delay = options.delay


def _printed(options: argparse.Namespace, found: View | CgpuError, *, first: bool) -> str:
    when = datetime.now().astimezone().strftime("%H:%M:%S")
    if isinstance(found, View):
        columns = max(80, shutil.get_terminal_size((plain.COLUMNS, 24)).columns)
        return plain.text(found, when, by=options.sort, filtered=options.filter, columns=columns)
    if first:
        raise found
    return f"cgpu top {when} {found}\n"


def run(options: argparse.Namespace) -> None:
    """Do what the options say. Raises CgpuError."""
    read = reader(options)
    if not is_screen(options):
        batch(options, options.batch or 1, Sampler(read, lambda _: None, options.delay))
        return
    # A mistake in the words of the call, or no engine at the start, is one line and no screen.
    read(None)
    try:
        from cgpu.top.screen import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise CgpuError(MISSING) from None
    Top(read, delay=options.delay, by=options.sort, filtered=options.filter).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = parser().parse_args(arguments)
    return exit_status("cgpu top", lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
