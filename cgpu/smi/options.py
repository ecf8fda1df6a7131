# SPDX-License-Identifier: Apache-2.0
"""The options of cgpu-smi. Where nvidia-smi has the same thing, its name is nvidia-smi's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cgpu import __version__
from cgpu.arguments import Parser, seconds

PROGRAM = "cgpu-smi"
PERIOD_S = 5.0  # of -l without a number, as nvidia-smi


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    made = Parser(
        prog=PROGRAM,
        description="Show the GPUs, the slices that containers have of them, and the processes in these.",
        examples=(PROGRAM, f"{PROGRAM} --watch 2", f"{PROGRAM} --json -i 0", f"{PROGRAM} --csv -l 5"),
        meant={
            "-x": "--json",
            "-q": "--json",
            "--query": "--json",
            "-L": "--json",
            "--list-gpus": "--json",
            "--query-gpu": "--json",
            "--query-slices": "--csv",
            "--query-compute-apps": "--json",
            "--format": "--csv",
            "-lms": "--loop",
            "--loop-ms": "--loop",
            "dmon": f"{PROGRAM} --watch 1",
            "pmon": f"{PROGRAM} --watch 1",
        },
    )
    made.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON; with -l one line per sample")
    form.add_argument("--csv", action="store_true", help="CSV, one line per container")
    form.add_argument(
        "--publish",
        action="store_true",
        help="as root: let other users see what show_slices of the configuration says, until interrupted, or "
        "until show_slices is root",
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


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; wrong usage exits with 2."""
    made = parser()
    options = made.parse_args(arguments)
    if options.publish and not options.loop is options.gpu is options.tree is None:
        made.error("--publish: expected no other option")
    return options
