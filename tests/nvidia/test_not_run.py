# SPDX-License-Identifier: Apache-2.0
"""Where the archive has not what a file needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NEEDS = """
from tests.nvidia.archive import NotInArchiveError

def needs():
    raise NotInArchiveError("the archive is closed")

def test_one():
    assert False

def test_two():
    assert False
"""
PLAIN = "def test_here():\n    pass\n"


def test_left_out_by_name(repository: Path, tmp_path: Path) -> None:
    """Its tests are not run, one line says why, and where no skip is allowed that is no failure."""
    shutil.copy(repository / "tests" / "nvidia" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_needs.py").write_text(NEEDS)
    (tmp_path / "test_plain.py").write_text(PLAIN)
    environment = os.environ | {"CGPU_TEST_REQUIRE": "all", "PYTHONPATH": str(repository)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("tests/nvidia: not run: the archive is closed") == 1
    assert "1 passed, 2 deselected" in done.stdout
