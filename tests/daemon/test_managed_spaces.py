# SPDX-License-Identifier: Apache-2.0
"""Runs managed_spaces.c: address spaces with managed memory, and the end of their charges."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.daemon.linked import linked, succeeds

SOURCE = Path(__file__).with_name("managed_spaces.c")
NAMES = re.findall(r"\bTEST\((\w+)\),", SOURCE.read_text())
WRAPPED = ("process_has_ended", "process_started")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it."""
    return linked(SOURCE, WRAPPED, tmp_path_factory.mktemp("spaces") / "managed_spaces")


@pytest.mark.parametrize("name", NAMES)
def test_fact(program: Path, name: str) -> None:
    """The fact that a C test is named after holds."""
    succeeds(program, name)


def test_program_lists_its_tests(program: Path) -> None:
    """What it says it holds is what was run."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True, timeout=60)
    assert listed.stdout.split() == NAMES
