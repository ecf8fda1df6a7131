# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit in pods are themselves tested, on a cluster whose engine enforces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unenforced import others, run_unenforced

pytestmark = pytest.mark.usefixtures("beside_a_cluster")
LEAST = 2
SECONDS = 900


@pytest.mark.timeout(SECONDS + 60)
def test_each_fails_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    report = tmp_path / "report.xml"
    outcomes = run_unenforced(["tests/kubernetes"], report, SECONDS, ["scripts/test-kubernetes"])
    assert len(outcomes) >= LEAST
    assert others(outcomes) == {}
