# SPDX-License-Identifier: Apache-2.0
"""Runs listening.c: which listener is served by whom."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.daemon.linked import linked


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it."""
    output = tmp_path_factory.mktemp("listening") / "listening"
    return linked(Path(__file__).with_name("listening.c"), (), output)


def run(program: Path, name: str) -> None:
    """Fail unless what is named holds."""
    done = subprocess.run([str(program), name], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_interrupted_calls_hold_nobody_up(program: Path) -> None:
    """Calls that go away while they wait take no turn from the one that still waits."""
    run(program, "interrupted")


def test_a_late_worker_leaves_the_next_alone(program: Path) -> None:
    """What was heard of a listener that is gone is not taken for word of the one in its place."""
    run(program, "late")
