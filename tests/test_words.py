# SPDX-License-Identifier: Apache-2.0
"""Words that docs/glossary.md has replaced stay out of the project's sources."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_linters import no_findings, source_files

GLOSSARY = "docs/glossary.md"
# Programs read `gates` in the tree's entry `sched` (docs/tree.md) and in the output of `cgpud --status`.
# Kubernetes has feature gates.
PUBLIC = re.compile(
    r"""["']gates["']|\bGATES\b|(?:by|between|=)[ ]?gates\b|\bfeature gates?\b|--feature-gates\b"""
)
HEADING = "## Words that are gone"
# Log lines and the tree's texts stay as they are.
C_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# Names that the kernel's checksum of an exported symbol is made of (kmod/module/interface.h).
CHECKSUM_NAME = re.compile(r"^#define \w+ \w+$")
# Words that are ordinary English, or somebody else's term, in other places than those that are meant.
ORDINARY = {
    "stage",
    "lane",
    "look",
    "turn",
    "told",
    "space",
    "hold",
    "kept",
    "giving",
    "taking",
    "native",
    "bare",
    "frame",
    "exchange",
    "answers",
}


def gone(repository: Path) -> list[str]:
    """Return the words that the glossary takes leave of, but for ordinary ones."""
    table = (repository / GLOSSARY).read_text().split(HEADING)[1]
    words = [
        word.strip()
        for row in re.findall(r"^\| ([a-z, -]+) \|", table, re.MULTILINE)
        for word in row.split(",")
        if word.strip() != "formerly"
    ]
    return [word for word in words if word not in ORDINARY]


def read(path: Path, line: str) -> str:
    """Return what a line says in words of this project's choice."""
    if path.name == "interface.h" and CHECKSUM_NAME.match(line):
        return ""
    return C_STRING.sub("", line) if path.suffix in {".c", ".h"} else line


def test_words_stay_gone(repository: Path) -> None:
    """No source file has a word that is gone."""
    words = gone(repository)
    assert len(words) > 10
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})s?\b", re.IGNORECASE)
    no_findings(
        [
            f"{path.relative_to(repository)}:{number}: {word}"
            for path in source_files(repository, ".py", ".c", ".h")
            if path.name != Path(__file__).name
            for number, line in enumerate(path.read_text().splitlines(), 1)
            for word in pattern.findall(read(path, PUBLIC.sub("", line)))
        ]
    )
