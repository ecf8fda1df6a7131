# SPDX-License-Identifier: Apache-2.0
"""cgpu top: the figures of cgpu-smi live on a screen."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from cgpu.arguments import Parser, exit_status, seconds
from cgpu.client.tree import is_whole
from cgpu.errors import CgpuError
from cgpu.smi.main import source, watch

DELAY_S = 2.0
LEAST_DELAY_S, MOST_DELAY_S = 1, 3600  # the engine's figures can be a second old
MISSING = (
    "the Python package textual is missing; install it: pip install 'opencgpu[top]'; "
    "without it, as text: cgpu top -n 1"
)


def view_count(text: str) -> int:
    """Read how many views are wanted. Raises ArgumentTypeError."""
    if not is_whole(text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of views, such as 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu top",
        description="Show cards and slices live in the terminal, with bars and short histories.",
        examples=("cgpu top", "cgpu top -i 0 -d 5", "cgpu top -n 1"),
        meant={"-b": "-n", "--batch": "-n", "--once": "-n 1", "-l": "--delay", "--id": "--gpu"},
    )
    made.add_argument(
        "-d",
        "--delay",
        dest="loop",
        metavar="SECONDS",
        type=seconds(LEAST_DELAY_S, MOST_DELAY_S),
        default=DELAY_S,
        help=f"seconds between two views (default {DELAY_S:g})",
    )
    made.add_argument(
        "-n",
        "--count",
        metavar="NUMBER",
        type=view_count,
        help="so many views as text, and end; without a terminal the views are text until an interrupt",
    )
    made.add_argument(
        "-i", "--gpu", metavar="GPU", help="only this GPU: its index, or its UUID or the start of it"
    )
    made.add_argument("--tree", metavar="DIR", help="the engine's tree, where it is not the usual one")
    return made


def run(options: argparse.Namespace) -> None:
    """Do what the options say. Raises CgpuError."""
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if options.count is not None or not has_terminal:
        watch(argparse.Namespace(**vars(options), json=False, query=None), options.count)
        return
    # A mistake in the words of the call, or no engine at the start, is one line and no screen.
    next(source(options))
    try:
        from cgpu.top.screen import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise CgpuError(MISSING) from None
    Top(lambda: source(options), options.loop).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = parser().parse_args(arguments)
    return exit_status("cgpu top", lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
