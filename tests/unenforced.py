# SPDX-License-Identifier: Apache-2.0
"""Runs tests of the limit with enforcement switched off: each of them must fail then."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.integration.commands import ENFORCE
from tests.kubernetes.harness.counts import FULL as FULL_OF_PODS
from tests.packages import ROOT
from tests.vm.harness.counts import FULL

MARKED = "enforcement and not archive"
# The older form: some tests record properties, which pytest's newer one has no place for.
REPORT = ("-o", "junit_family=xunit1")
PYTEST = (sys.executable, "-m", "pytest")


def run_unenforced(
    chosen: Sequence[str], report: Path, seconds: float, pytest: Sequence[str] = PYTEST
) -> dict[str, str]:
    """Run those of them that are marked `enforcement`, by pytest or what starts it; return how each ended."""
    subprocess.run(
        [*pytest, "-q", "-m", MARKED, *REPORT, f"--junitxml={report}", *chosen],
        cwd=ROOT,
        # Whichever they are, each has its small count.
        env={**os.environ, ENFORCE: "off", FULL: "", FULL_OF_PODS: ""},
        capture_output=True,
        check=False,
        timeout=seconds,
    )
    outcomes: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - our own file
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        # A report has a case of its own, after the test's, for what the test leaves untidy.
        outcomes.setdefault(name, outcome_of(case))
    return outcomes


def outcome_of(case: ET.Element) -> str:
    if case.find("skipped[@type='pytest.xfail']") is not None:
        return "failure"
    return next((kind for kind in ("failure", "error") if case.find(kind) is not None), "passed or skipped")


def others(outcomes: dict[str, str]) -> dict[str, str]:
    return {name: outcome for name, outcome in outcomes.items() if outcome != "failure"}
