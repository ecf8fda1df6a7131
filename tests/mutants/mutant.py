# SPDX-License-Identifier: Apache-2.0
"""The files of mutants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
HEAD = re.compile(r"\AFault: (.+)\nHarm: (.+)\nTests: (.+)\n\n(?=diff --git )")


@dataclass(frozen=True)
class Mutant:
    """A fault: FOLDER/NAME, what is wrong, what a user suffers, the tests that may catch it, and its file."""

    name: str
    fault: str
    harm: str
    tests: tuple[str, ...]
    path: Path


def read_mutants(folder: Path = FOLDER) -> list[Mutant]:
    """Read all mutants, in the order of their names. Raises ValueError for a file of another form."""
    return [read_mutant(path, folder) for path in sorted(folder.rglob("*.patch"))]


def read_mutant(path: Path, folder: Path) -> Mutant:
    """Read one mutant."""
    head = HEAD.match(path.read_text())
    if head is None:
        raise ValueError(
            f"{path}: expected the lines Fault:, Harm: and Tests:, an empty line, and a diff of git"
        )
    name = path.relative_to(folder).with_suffix("").as_posix()
    return Mutant(name, head[1], head[2], tuple(head[3].split()), path)
