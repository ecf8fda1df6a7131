# SPDX-License-Identifier: Apache-2.0
"""The files of mutants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
HEAD = re.compile(r"\AFault: .+\nHarm: .+\nTests: (.+)\n\n(?=diff --git )")


@dataclass(frozen=True)
class Mutant:
    """A fault: FOLDER/NAME, the tests that may catch it, and its file."""

    name: str
    tests: tuple[str, ...]
    path: Path


def read_mutants(folder: Path = FOLDER) -> list[Mutant]:
    """Read all mutants, in the order of their names. Raises ValueError for a file of another form."""
    return [read_mutant(path, folder) for path in sorted(folder.rglob("*.patch"))]


def read_mutant(path: Path, folder: Path) -> Mutant:
    """Read one mutant."""
    head = HEAD.match(path.read_text())
    if head is None:
        raise ValueError(f"{path}: expected lines Fault:, Harm: and Tests:, an empty line, a diff of git")
    name = path.relative_to(folder).with_suffix("").as_posix()
    return Mutant(name, tuple(head[1].split()), path)
