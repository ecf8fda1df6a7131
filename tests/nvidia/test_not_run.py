# SPDX-License-Identifier: Apache-2.0
"""tests/nvidia/conftest.py deselects a test file when the archive lacks the software that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FILE_WITH_NEEDS = """
from tests.nvidia.archive import NotInArchiveError

def needs():
    raise NotInArchiveError("the archive is closed")

def test_one():
    assert False

def test_two():
    assert False
"""
FILE_WITHOUT_NEEDS = "def test_here():\n    pass\n"


def test_deselected_with_a_reason(repository: Path, tmp_path: Path) -> None:
    """The file's tests are deselected, one line says why, and CGPU_TEST_REQUIRE=all makes that no failure."""
    shutil.copy(repository / "tests" / "nvidia" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_needs.py").write_text(FILE_WITH_NEEDS)
    (tmp_path / "test_plain.py").write_text(FILE_WITHOUT_NEEDS)
    environment = os.environ | {"CGPU_TEST_REQUIRE": "all", "PYTHONPATH": str(repository)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("tests/nvidia: not run: the archive is closed") == 1
    assert "1 passed, 2 deselected" in done.stdout
