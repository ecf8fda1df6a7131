# SPDX-License-Identifier: Apache-2.0
"""The options of cgpu-smi. Where nvidia-smi has the same thing, its name is nvidia-smi's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from cgpu import __version__
from cgpu.arguments import Parser, seconds
from cgpu.smi import query

PROGRAM = "cgpu-smi"
PERIOD_S = 5.0  # of -l without a number, as nvidia-smi


class Listing(argparse.Action):
    """Prints a text and ends."""

    def __init__(self, *arguments: Any, text: str, **settings: Any) -> None:
        """Take what argparse takes. text: the printed text."""
        super().__init__(*arguments, **{**settings, "nargs": 0})
        self.text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print and end."""
        sys.stdout.write(self.text)
        parser.exit()


def parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser. program: by which name the command was called."""
    made = Parser(
        prog=program,
        description="Show the GPUs, the slices that containers have of them, and the processes in these.",
        examples=(
            program,
            f"{program} --watch 2",
            f"{program} -q -i 0",
            f"{program} --query-gpu=index,name,memory.used,utilization.gpu --format=csv",
            f"{program} --query-slices=name,memory.used,memory.total --format=csv,noheader,nounits",
        ),
        meant={
            "-x": "--json",
            "-lms": "--loop",
            "--loop-ms": "--loop",
            "--query-compute-apps": "--json",
            "dmon": f"{program} --watch 1",
            "pmon": f"{program} --watch 1",
        },
    )
    made.add_argument("--version", action="version", version=f"{program} {__version__}")
    _forms(made.add_mutually_exclusive_group(), program)
    made.add_argument(
        "--format",
        type=query.csv_format,
        metavar="FORMAT",
        help="of the queries: csv, which may be followed by ,noheader and ,nounits",
    )
    made.add_argument(
        "-l",
        "--loop",
        "--watch",
        metavar="SECONDS",
        nargs="?",
        const=PERIOD_S,
        type=seconds(0.1, 86400),
        help=f"take a sample every SECONDS until interrupted; without a number every {PERIOD_S:.0f}",
    )
    made.add_argument(
        "-i", "--gpu", "--id", metavar="GPU", help="only this GPU: its index, or its UUID or the start of it"
    )
    made.add_argument("--tree", metavar="DIR", help="the engine's tree, where it is not the usual one")
    return made


def _forms(form: Any, program: str) -> None:
    form.add_argument(
        "-q",
        "--query",
        action="store_true",
        help="all figures, one on each line; with --format the usual fields of slices as CSV",
    )
    form.add_argument("-L", "--list-gpus", action="store_true", help="the GPUs with their UUIDs")
    form.add_argument("--json", action="store_true", help="JSON; with -l one line per sample")
    form.add_argument("--csv", action="store_true", help="CSV, one line per container")
    form.add_argument(
        "--query-gpu",
        metavar="FIELDS",
        type=query.fields(query.GPU_FIELDS, f"{program} --help-query-gpu"),
        help="CSV of these fields, one line per GPU",
    )
    form.add_argument(
        "--query-slices",
        metavar="FIELDS",
        type=query.fields(query.SLICE_FIELDS, f"{program} --help-query-slices"),
        help="CSV of these fields, one line per slice",
    )
    form.add_argument(
        "--help-query-gpu",
        action=Listing,
        text=query.described(query.GPU_FIELDS),
        help="list the fields of --query-gpu, and end",
    )
    form.add_argument(
        "--help-query-slices",
        action=Listing,
        text=query.described(query.SLICE_FIELDS),
        help="list the fields of --query-slices, and end",
    )
    form.add_argument(
        "--publish",
        action="store_true",
        help="as root: let other users see what show_slices of the configuration says, until interrupted, or "
        "until show_slices is root",
    )


def parsed(arguments: Sequence[str] | None, program: str = PROGRAM) -> argparse.Namespace:
    """Return the options; wrong usage exits with 2."""
    made = parser(program)
    options = made.parse_args(arguments)
    if options.publish and not options.loop is options.gpu is options.tree is options.format is None:
        made.error("--publish: expected no other option")
    if options.format is not None and options.query:
        options.query, options.query_slices = False, query.usual()
    if options.format is not None and options.query_gpu is options.query_slices is None:
        made.error(
            "--format: expected with --query, or with --query-gpu or --query-slices, which name the fields"
        )
    return options
