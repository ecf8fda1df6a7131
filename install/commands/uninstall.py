# SPDX-License-Identifier: Apache-2.0
"""cgpu uninstall: take back what cgpu install has done to this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from cgpu import paths
from cgpu.arguments import Parser, seconds
from cgpu.install.commands.install import run, say
from cgpu.install.installer import DRAIN_S, Installer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when nothing of it is left, 1 after one line of error: again goes on from there."""
    made = parser()
    options = made.parse_args(arguments)
    if options.timeout is not None and not options.drain:
        made.error("--timeout: expected only with --drain")
    timeout_s = DRAIN_S if options.timeout is None else options.timeout
    drain_s = timeout_s if options.drain else None
    return run(
        "cgpu uninstall",
        lambda one: _uninstall(one, drain_s, dry_run=options.dry_run),
        dry_run=options.dry_run,
    )


def parser() -> argparse.ArgumentParser:
    found = Parser(
        prog="cgpu uninstall",
        description="Take back what cgpu install has done to this machine.",
        examples=("cgpu uninstall --dry-run", "cgpu uninstall", "cgpu uninstall --drain --timeout 60"),
    )
    found.add_argument(
        "--drain",
        action="store_true",
        help="refuse new slices, and wait until the containers that have one have ended",
    )
    found.add_argument(
        "--timeout", type=seconds(0, 1_000_000), metavar="SECONDS",
        help=f"how long --drain waits (default {DRAIN_S:.0f})",
    )  # fmt: skip
    found.add_argument(
        "--dry-run", action="store_true", help="only show the changes of files, and the commands"
    )
    return found


def _uninstall(installer: Installer, drain_s: float | None, *, dry_run: bool) -> None:
    if dry_run:
        for line in installer.show_uninstall():
            say(line)
        return
    found = installer.uninstall(drain_s)
    for note in installer.notes:
        say(note)
    if found:
        say(f"what cgpu install has done is undone; to remove the {program_files()}")
    elif not installer.notes:
        say("nothing to do: there is nothing here that cgpu install has done")


def program_files() -> str:
    """Return what these commands came in, and what removes it."""
    if paths.BUNDLE in (None, paths.PACKAGED):
        return "package, too: pip, apt or dnf"
    return f"bundle, too: rm -r {os.path.dirname(paths.BUNDLE)}"
