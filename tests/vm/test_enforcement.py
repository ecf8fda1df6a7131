# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit are themselves tested: when the module enforces nothing, each of them must fail."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.engine import ENFORCE
from tests.vm.harness.counts import FULL, count
from tests.vm.harness.store import ROOT

# One of each kind, among those that take little time.
SOME = (
    "memory/test_slice.py::test_pages_and_ways",
    "memory/test_bypass.py::test_wiped_environment",
    "isolation/test_ways.py::test_cards_of_others_are_not_started",
    "memory/test_ledger.py::test_charges_outlive[many]",
    "sched/test_shares.py::test_channels_do_not_run_before_their_turn",
    "isolation/test_attacks.py::test_attack[docker_in_docker]",
)
CHOSEN = count([f"tests/vm/{name}" for name in SOME], ["tests/vm"])
# Tests of the limit there are at least: two of the few are about the fake driver.
LEAST = count(len(SOME) - 2, 100)
SECONDS = count(1200, 7200)
# The older form: some tests record properties, which pytest's newer one has no place for.
REPORT = ("-o", "junit_family=xunit1")


def outcome_of(case: ET.Element) -> str:
    """Return how a test ended; an error is what keeps it from beginning."""
    return next((kind for kind in ("failure", "error") if case.find(kind) is not None), "passed or skipped")


def unenforced(chosen: Sequence[str], report: Path) -> dict[str, str]:
    """Run tests of the limit with enforcement off; return how each ended."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "enforcement", *REPORT, f"--junitxml={report}", *chosen],
        cwd=ROOT,
        # Whichever they are, each has its small count.
        env={**os.environ, ENFORCE: "off", FULL: ""},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    outcomes: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - our own file
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        # What a test leaves untidy is told as a case of its own, after it.
        outcomes.setdefault(name, outcome_of(case))
    return outcomes


@pytest.mark.timeout(SECONDS + 60)
def test_tests_of_the_limit_fail_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    outcomes = unenforced(CHOSEN, tmp_path / "report.xml")
    assert len(outcomes) >= LEAST
    # One that fails may leave its machine so that the next cannot begin: that gets a machine of its own.
    for name in [name for name, outcome in outcomes.items() if outcome == "error"]:
        outcomes |= unenforced([name], tmp_path / "again.xml")
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "failure"} == {}
