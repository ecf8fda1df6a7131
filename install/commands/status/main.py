# SPDX-License-Identifier: Apache-2.0
"""cgpu status: arguments, and the only place that prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.install.commands.status import show
from cgpu.install.commands.status.ready import Exit, judge
from cgpu.install.node.report import look


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    out = Parser(
        prog="cgpu status",
        description="Show the engine and its GPUs. Exits 0 when sliced containers can start, 1 when not, "
        "3 when no container engine knows the runtime, 4 when every GPU is full.",
    )
    out.add_argument("--json", action="store_true", help="one JSON document")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return whether sliced containers can start, as Exit says."""
    options = parser().parse_args(arguments)
    try:
        if os.geteuid() != 0:
            raise CgpuError("only root reaches the engine: sudo cgpu status")
        now = look()
        ready = judge(now)
    except CgpuError as error:
        print(f"cgpu status: {error}", file=sys.stderr)
        return Exit.NOT_READY
    sys.stdout.write(show.as_json(now, ready) if options.json else show.as_text(now, ready))
    return ready.exit
