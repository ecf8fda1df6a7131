# SPDX-License-Identifier: Apache-2.0
"""The attacks are themselves tested: where cgpud enforces nothing, each on the limit must succeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.test_enforcement import unenforced

pytestmark = pytest.mark.root

LEAST = 16  # attacks on the limit there are at least


def test_attacks_succeed_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    outcomes = unenforced(["tests/attacks/test_daemon.py"], tmp_path / "report.xml")
    assert len(outcomes) >= LEAST
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "failure"} == {}
