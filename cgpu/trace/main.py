# SPDX-License-Identifier: Apache-2.0
"""cgpu trace: its arguments, and the only place of it that prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from cgpu.arguments import Parser
from cgpu.errors import CgpuError, one_line
from cgpu.trace import record

EXIT_OWN = 125
EXIT_DIFFERS = 1


class TraceParser(Parser):
    """A parser whose complaint is one line, with the status of our own failures."""

    def error(self, message: str) -> NoReturn:
        """Raise CgpuError in place of leaving."""
        raise CgpuError(self.explained(message))


def parser() -> TraceParser:
    """Return the grammar of the command line."""
    made = TraceParser(
        prog="cgpu trace",
        description="NVIDIA driver calls: recorded, shown, replayed.",
        examples=(
            "cgpu trace record -o smi.trace -- nvidia-smi",
            "cgpu trace show --summary smi.trace",
            "cgpu trace replay --model T4 --mem 6G smi.trace",
        ),
    )
    commands = made.add_subparsers(required=True, metavar="record|show|replay")
    recorded = commands.add_parser(
        "record", help="run a command and record the driver calls of its processes"
    )
    recorded.add_argument(
        "-o", "--output", metavar="FILE", default=record.OUTPUT, help=f"the trace (default {record.OUTPUT})"
    )
    recorded.add_argument(
        "--note", metavar="KEY=VALUE", action="append", default=[], help="something to know, as cuda=12.4"
    )
    recorded.add_argument("--dev", metavar="DIR", default="/dev", help="where the driver's nodes are")
    recorded.add_argument("--driver", metavar="VERSION", help="its version, where it does not tell it")
    recorded.add_argument(
        "--every-call",
        action="store_true",
        help="stop at every system call: for commands with seccomp filters",
    )
    recorded.add_argument("argv", metavar="COMMAND", nargs=argparse.REMAINDER, help="after --")
    recorded.set_defaults(run=record.run)
    shown = commands.add_parser("show", help="print a trace as a table")
    shown.add_argument("--summary", action="store_true", help="counts by call and status alone")
    shown.add_argument("file", type=Path, metavar="FILE", help="the trace")
    shown.set_defaults(run=do_show)
    replayed = commands.add_parser("replay", help="run a trace through the engine and a simulated card")
    replayed.add_argument(
        "--model",
        metavar="MODEL[=MIB]",
        default="T4",
        help="the card: T4, V100, A10, A100, A100-80GB, L4, L40S, H100, H200, B200 (default T4)",
    )
    replayed.add_argument(
        "--mem", metavar="SIZE", help="the slice: bytes, or 512M, 6G (default the whole card)"
    )
    replayed.add_argument("file", type=Path, metavar="FILE", help="the trace")
    replayed.set_defaults(run=do_replay)
    return made


def do_show(options: argparse.Namespace) -> int:
    """Print a trace. Raises CgpuError."""
    from cgpu.trace.format import load
    from cgpu.trace.show import summary, table

    trace = load(options.file)
    for line in summary(trace) if options.summary else table(trace):
        print(line)
    return 0


def do_replay(options: argparse.Namespace) -> int:
    """Replay a trace and say what differs. Raises CgpuError."""
    from cgpu.trace.format import load
    from cgpu.trace.replay import replay
    from cgpu.trace.report import lines
    from cgpu.trace.values import card_of, slice_of

    memory = 0 if options.mem is None else slice_of(options.mem)
    outcome = replay(load(options.file), card_of(options.model), memory)
    for line in lines(outcome):
        print(line)
    return 0 if outcome.agrees else EXIT_DIFFERS


def main(arguments: Sequence[str]) -> int:
    """Run cgpu trace; any fault is one line on standard error and exit status 125."""
    try:
        options = parser().parse_args(arguments)
        return int(options.run(options))
    except CgpuError as error:
        print(f"cgpu trace: {error}", file=sys.stderr)
    except BrokenPipeError:
        # The reader has seen enough. Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        print(f"cgpu trace: {one_line(str(error) or type(error).__name__)}", file=sys.stderr)
    return EXIT_OWN
