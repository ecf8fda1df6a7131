# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit are themselves tested: without enforcement each of them must fail."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.integration.engine import ENFORCE
from tests.integration.images import ROOT

LEAST = 40  # tests of the limit there are at least


@pytest.mark.timeout(900)
def test_every_test_of_the_limit_fails_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    report = tmp_path / "report.xml"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "enforcement",
            f"--junitxml={report}",
            "tests/integration",
        ],
        cwd=ROOT,
        env={**os.environ, ENFORCE: "off"},
        capture_output=True,
        check=False,
        timeout=880,
    )
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - our own file
    assert len(cases) >= LEAST
    assert [case.get("name") for case in cases if case.find("failure") is None] == []
