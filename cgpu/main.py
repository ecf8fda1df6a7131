# SPDX-License-Identifier: Apache-2.0
"""cgpu: one command with subcommands. Each is imported when it is called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cgpu import __version__
from cgpu.errors import show

EXIT_USAGE = 2


@dataclass(frozen=True, slots=True)
class Subcommand:
    """module: it has `main(arguments)`, which returns the exit status. does: one line for the help."""

    module: str
    does: str


SUBCOMMANDS = {
    "run": Subcommand(
        "cgpu.run.main", "run a command and all that it starts in a slice, without a container"
    ),
    "check-driver": Subcommand(
        "cgpu.check_driver.main", "check whether the driver understands its calls as the engine takes them"
    ),
    "trace": Subcommand("cgpu.trace.main", "record the driver calls of a command, show and replay them"),
}


def usage() -> str:
    """Return the help."""
    lines = [f"  {name:<14}{subcommand.does}" for name, subcommand in SUBCOMMANDS.items()]
    return "\n".join(
        ["usage: cgpu [--help | --version] SUBCOMMAND ...", "", *lines, "", "Each has a --help of its own."]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand and return its exit status; 2 after one line on stderr when there is none."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    name = words[0] if words else ""
    if name in SUBCOMMANDS:
        status: int = importlib.import_module(SUBCOMMANDS[name].module).main(words[1:])
        return status
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name == "--version":
        print(f"cgpu {__version__}")
        return 0
    accepted = ", ".join(SUBCOMMANDS)
    given = f"subcommand {show(name)}" if words else "no subcommand"
    print(f"cgpu: {given}: accepted is one of {accepted}; see: cgpu --help", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
