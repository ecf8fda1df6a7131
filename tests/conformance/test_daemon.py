# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over cgpud with simulated cards."""

from __future__ import annotations

import subprocess

import pytest

from tests.conformance.steps import Case
from tests.conformance.suite import Answers, Place, answers, command, suite, verify
from tests.daemon.conftest import daemon  # noqa: F401, a fixture
from tests.daemon.harness import SLICED, Daemon


def carried_out(engine: Daemon, cases: list[Case]) -> Answers:
    """Carry out all cases in one executor."""
    before = ("/usr/bin/python3", "-I", str(SLICED), str(engine.run / "seccomp.sock"), "{id}")
    place = Place(str(engine.tree), str(engine.run / "sim"), cgroups=False, before=before)
    done = subprocess.run(command(), input=place.plan(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return answers(done.stdout)


pytestmark = pytest.mark.root

CASES = suite("cgpud", "0")


@pytest.fixture(scope="module")
def found(daemon: Daemon) -> Answers:  # noqa: F811, the fixture
    return carried_out(daemon, CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(found: Answers, case: Case) -> None:
    """The daemon does what the case says of every engine."""
    verify(case, found)
