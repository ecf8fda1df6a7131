# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit are themselves tested: when the module enforces nothing, each of them must fail."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.integration.engine import ENFORCE
from tests.vm.counts import FULL, count
from tests.vm.store import ROOT

# One of each kind, among those that take little time.
SOME = (
    "test_slice.py::test_pages_and_ways",
    "test_bypass.py::test_wiped_environment",
    "test_neighbours.py::test_neither_reaches_into_the_other",
    "test_escapes.py::test_nodes_of_its_own",
    "test_life.py::test_driver_goes_before_the_engine_unless_it_is_open",
    "test_races.py::test_a_handle_that_comes_again",
    "test_books.py::test_charges_outlive",
)
CHOSEN = count([f"tests/vm/{name}" for name in SOME], ["tests/vm"])
LEAST = count(len(SOME), 60)  # tests of the limit there are at least
SECONDS = count(1200, 7200)


@pytest.mark.timeout(SECONDS + 60)
def test_tests_of_the_limit_fail_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    report = tmp_path / "report.xml"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "enforcement", f"--junitxml={report}", *CHOSEN],
        cwd=ROOT,
        # All tests, and each with its small count.
        env={**os.environ, ENFORCE: "off", FULL: ""},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - our own file
    # A test that has failed may leave its machine untidy, which is told as a case of its own.
    failed = {case.get("name") for case in cases if case.find("failure") is not None}
    assert len(failed) >= LEAST
    assert [case.get("name") for case in cases if case.get("name") not in failed] == []
