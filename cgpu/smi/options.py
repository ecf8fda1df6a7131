# SPDX-License-Identifier: Apache-2.0
"""The options of cgpu-smi. Where nvidia-smi has the same thing, its name is nvidia-smi's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cgpu import __version__, suggest
from cgpu.arguments import Parser, seconds
from cgpu.errors import show
from cgpu.smi.render import FIELDS, QUERY_FIELDS

PROGRAM = "cgpu-smi"
PERIOD_S = 5.0  # of -l without a number, as nvidia-smi
NO_HEADER, NO_UNITS = "noheader", "nounits"


def query_fields(text: str) -> tuple[str, ...]:
    """Read the fields of a query. Raises ArgumentTypeError for an unknown one."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in QUERY_FIELDS:
            near = suggest.expected(name, QUERY_FIELDS, "expected a field that the help lists")
            raise argparse.ArgumentTypeError(f"{show(name) or 'an empty name'}: {near}")
    return names


def csv_format(text: str) -> frozenset[str]:
    """Read the words behind csv. Raises ArgumentTypeError."""
    first, *words = (word.strip() for word in text.split(","))
    if first != "csv" or not {*words} <= {NO_HEADER, NO_UNITS}:
        raise argparse.ArgumentTypeError(f"{show(text)}: expected csv[,{NO_HEADER}][,{NO_UNITS}]")
    return frozenset(words)


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    made = Parser(
        prog=PROGRAM,
        description="Show the GPUs, the slices that containers have of them, and the processes in these.",
        examples=(
            PROGRAM,
            f"{PROGRAM} --watch 2",
            f"{PROGRAM} -q -i 0",
            f"{PROGRAM} --csv -l 5",
            f"{PROGRAM} --query=name,memory_used_bytes --format=csv,noheader",
        ),
        meant={
            "-x": "--json",
            "-L": "--json",
            "--list-gpus": "--json",
            "--query-gpu": "--json",
            "--query-slices": "--query",
            "--query-compute-apps": "--json",
            "-lms": "--loop",
            "--loop-ms": "--loop",
            "dmon": f"{PROGRAM} --watch 1",
            "pmon": f"{PROGRAM} --watch 1",
        },
    )
    made.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_forms(made.add_mutually_exclusive_group())
    made.add_argument(
        "--format",
        metavar="FORMAT",
        type=csv_format,
        help=f"of --query: csv[,{NO_HEADER}][,{NO_UNITS}]; without FIELDS these are those of --csv",
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


def _add_forms(form: argparse._MutuallyExclusiveGroup) -> None:
    form.add_argument("--json", action="store_true", help="JSON; with -l one line per sample")
    form.add_argument("--csv", action="store_true", help="CSV, one line per container")
    form.add_argument(
        "-q",
        "--query",
        metavar="FIELDS",
        nargs="?",
        const=(),
        type=query_fields,
        help="all figures, one on each line; with FIELDS a CSV line of these per container: "
        + ", ".join(QUERY_FIELDS),
    )
    form.add_argument(
        "--publish",
        action="store_true",
        help="as root: let other users see what show_slices of the configuration says, until interrupted, or "
        "until show_slices is root",
    )


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; wrong usage exits with 2."""
    made = parser()
    options = made.parse_args(arguments)
    if options.publish and not options.loop is options.gpu is options.tree is options.format is None:
        made.error("--publish: expected no other option")
    if options.format is not None and options.query is None:
        made.error("--format: expected only with --query")
    if options.csv or (options.query == () and options.format is not None):
        options.query = FIELDS
    options.format = frozenset({NO_UNITS} if options.csv else options.format or ())
    return options
