# SPDX-License-Identifier: Apache-2.0
"""Tests of the limit over NVIDIA's driver are themselves tested: without enforcement each fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.test_enforcement import unenforced

CHOSEN = ("tests/vm/nvidia/test_daemon.py", "tests/vm/memory/test_managed.py")
LEAST = 15
SECONDS = 600


@pytest.mark.real_driver
@pytest.mark.timeout(SECONDS)
def test_tests_of_the_limit_fail_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    outcomes = unenforced(CHOSEN, tmp_path / "report.xml")
    assert len(outcomes) >= LEAST
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "failure"} == {}
