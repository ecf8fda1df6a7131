# SPDX-License-Identifier: Apache-2.0
"""Runs listening.c: which listener is served by whom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.daemon.linked import linked, succeeds

SOURCE = Path(__file__).with_name("listening.c")
NAMES = re.findall(r"\bTEST\((\w+)\),", SOURCE.read_text())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it."""
    return linked(SOURCE, (), tmp_path_factory.mktemp("listening") / "listening")


@pytest.mark.parametrize("name", NAMES)
def test_fact(program: Path, name: str) -> None:
    """The fact that a C test is named after holds."""
    succeeds(program, name)
