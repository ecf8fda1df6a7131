# SPDX-License-Identifier: Apache-2.0
"""Words of docs/glossary.md that are gone stay out of the folders that are done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DONE = (
    "benchmarks",
    "cgpu/check_driver",
    "cgpu/client",
    "cgpu/config",
    "cgpu/request",
    "cgpu/run",
    "cgpu/smi",
    "cgpu/trace",
    "hook",
    "install",
    "runtime_config",
    "tests/hook",
    "tests/runtime_config",
    "kmod/abi",
    "kmod/check",
    "kmod/core",
    "kmod/daemon/host",
    "kmod/daemon/libcgpud",
    "kmod/daemon/listeners",
    "kmod/daemon/memory",
    "kmod/daemon/memory_backend",
    "kmod/daemon/processes",
    "kmod/daemon/reaper",
    "kmod/daemon/sched",
    "kmod/daemon/store",
    "kmod/daemon/supervise",
    "kmod/daemon/tree",
    "kmod/daemon/upgrade",
    "kmod/module",
    "kmod/probe",
    "kmod/replay",
    "kmod/rm",
    "kmod/sim",
    "kmod/trace",
    "scripts",
    "tests/attacks",
    "tests/check_driver",
    "tests/conformance",
    "tests/core",
    "tests/daemon/memory",
    "tests/daemon/programs",
    "tests/daemon/reaper",
    "tests/daemon/store",
    "tests/daemon/supervise",
    "tests/daemon/upgrade",
    "tests/nvidia",
    "tests/vm",
    "tests/layouts",
    "tests/trace",
)
GLOSSARY = "docs/glossary.md"
# A value of the tree's entry `sched` (docs/tree.md), and a count of the daemon's status: programs read both.
PUBLIC = {"cgpu/smi": re.compile(r"\bgates\b", re.IGNORECASE), "benchmarks": re.compile(r'"gates"')}
HEADING = "## Words on their way out"
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
        if word.strip() != "in the code"
    ]
    return [word for word in words if word not in ORDINARY]


def read(path: Path, line: str) -> str:
    """Return what a line says in words of this project's choice."""
    if path.name == "interface.h" and CHECKSUM_NAME.match(line):
        return ""
    return C_STRING.sub("", line) if path.suffix in {".c", ".h"} else line


@pytest.mark.parametrize("folder", DONE)
def test_words_stay_gone(repository: Path, folder: str) -> None:
    """No file of a folder that is done has a word that is gone."""
    words = gone(repository)
    assert len(words) > 10
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})s?\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(repository)}:{number}: {word}"
        for path in sorted((repository / folder).rglob("*"))
        if path.suffix in {".py", ".c", ".h", ".json"}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for word in pattern.findall(read(path, PUBLIC[folder].sub("", line) if folder in PUBLIC else line))
    ]
    assert found == []
