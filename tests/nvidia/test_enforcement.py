# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit by NVIDIA's clients are themselves tested."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.integration.engine import ENFORCE
from tests.nvidia.machines import VERSIONS, packages

pytestmark = pytest.mark.root
needs = packages
LEAST = 11  # for each release


def test_each_fails_without_enforcement(repository: Path, tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    report = tmp_path / "report.xml"
    chosen = ["-m", "enforcement", "tests/nvidia"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *chosen],
        cwd=repository,
        env={**os.environ, ENFORCE: "off"},
        capture_output=True,
        check=False,
        timeout=200,
    )
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - our own file
    assert len(cases) >= LEAST * len(VERSIONS)
    assert [case.get("name") for case in cases if case.find("failure") is None] == []
