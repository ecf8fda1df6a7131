# SPDX-License-Identifier: Apache-2.0
"""CGPU_TEST_REQUIRE: a skip that is not allowed is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_here():
    pass

def test_skips():
    pytest.skip("no such program")

@pytest.mark.gpu
def test_gpu():
    pytest.skip("no GPU")
"""
WHOLE_FILE = 'import pytest\npytest.skip("nothing for it here", allow_module_level=True)\n'
SETTINGS = "[pytest]\nmarkers =\n    gpu: needs a GPU\n    root: needs root\n"


@pytest.mark.parametrize(
    ("require", "verdict"),
    [
        ("", "1 passed, 3 skipped"),
        ("all", "1 failed, 1 passed, 1 skipped, 1 error"),
        ("all,gpu", "2 failed, 1 passed, 1 error"),
        ("gpu", "1 failed, 1 passed, 2 skipped"),
    ],
)
def test_require(repository: Path, tmp_path: Path, require: str, verdict: str) -> None:
    """Skips fail by the words of the variable, with their reason; what needs a GPU has a word of its own."""
    shutil.copy(repository / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole.py").write_text(WHOLE_FILE)
    command = [sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors"]
    environment = os.environ | {"CGPU_TEST_REQUIRE": require}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert verdict in done.stdout
    assert ("does not allow this skip" in done.stdout) == bool(require)
