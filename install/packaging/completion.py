# SPDX-License-Identifier: Apache-2.0
"""Write the completion of the commands for bash and zsh: completion.py BASH_FOLDER ZSH_FOLDER."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import shtab

from cgpu.install.packaging.parsers import nested, programs

FILES = ("FILE", "PATH")
FOLDERS = ("DIR",)


def complete_paths(parser: argparse.ArgumentParser) -> None:
    """Have files and folders completed where a parser asks for one."""
    for action in parser._actions:
        if action.metavar in FILES:
            vars(action)["complete"] = shtab.FILE
        elif action.metavar in FOLDERS:
            vars(action)["complete"] = shtab.DIRECTORY
    for inner in nested(parser).values():
        complete_paths(inner)


def write(bash: Path, zsh: Path) -> None:
    """Write one file for each command, as the shells look for them."""
    for name, parser in programs().items():
        complete_paths(parser)
        for folder, shell, prefix in ((bash, "bash", ""), (zsh, "zsh", "_")):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{prefix}{name}").write_text(shtab.complete(parser, shell=shell))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
