# SPDX-License-Identifier: Apache-2.0
"""The parser of each command: manual pages and completion are made of them."""

from __future__ import annotations

import argparse
import importlib
from importlib.metadata import distribution

from cgpu import __version__
from cgpu.main import SUBCOMMANDS


def subcommands() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of cgpu's subcommands."""
    return {name: _parser(one.module) for name, one in SUBCOMMANDS.items()}


def programs() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the installed commands; none of those that only programs call."""
    entries = {one.name: one.module for one in distribution("opencgpu").entry_points}
    found = {name: _parser(module) for name, module in entries.items() if name not in ("cgpu", "cgpu-hook")}
    return {"cgpu": cgpu(), **dict(sorted(found.items()))}


def cgpu() -> argparse.ArgumentParser:
    """Return a parser of all subcommands as one, which cgpu itself has no need of."""
    made = argparse.ArgumentParser(
        prog="cgpu", description="Slices of NVIDIA GPUs: one command with subcommands."
    )
    made.add_argument("--version", action="version", version=f"cgpu {__version__}", help="show the version")
    inner = made.add_subparsers(metavar="SUBCOMMAND", required=True)
    for name, parser in subcommands().items():
        inner.add_parser(name, help=SUBCOMMANDS[name].does, parents=[parser], add_help=False)
    return made


def nested(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a command's own subcommands."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: inner for group in groups for name, inner in group.choices.items()}


def _parser(module: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = importlib.import_module(module).parser()
    return made
