# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit by NVIDIA's clients are themselves tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nvidia.machines import VERSIONS, packages
from tests.unenforced import others, run_unenforced

pytestmark = pytest.mark.root
needs = packages
LEAST = 10  # for each release
SECONDS = 280


def test_each_fails_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    outcomes = run_unenforced(["tests/nvidia"], tmp_path / "report.xml", SECONDS)
    assert len(outcomes) >= LEAST * len(VERSIONS)
    assert others(outcomes) == {}
