# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit are themselves tested: without enforcement each of them must fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages import ROOT
from tests.unenforced import others, run_unenforced

# A folder has at least so many tests of the limit.
LEAST = {"tests/integration": 23, "tests/daemon": 40, "tests/layouts": 17, "tests/attacks": 27}
SECONDS = 900


@pytest.mark.root
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(("folder", "least"), LEAST.items())
def test_every_test_of_the_limit_fails_without_enforcement(folder: str, least: int, tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "enforcement", folder]
    listed = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    assert len(tests) >= least
    outcomes = run_unenforced(tests, tmp_path / "report.xml", SECONDS)
    assert len(outcomes) == len(tests)
    assert others(outcomes) == {}
