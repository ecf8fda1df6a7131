# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over cgpud with simulated cards."""

from __future__ import annotations

import pytest

from tests.conformance.on_daemon import carried_out
from tests.conformance.steps import Case
from tests.conformance.suite import Answers, suite, verify
from tests.daemon.conftest import daemon  # noqa: F401, a fixture
from tests.daemon.harness import Daemon

pytestmark = pytest.mark.root

CASES = suite("cgpud", "0")


@pytest.fixture(scope="module")
def found(daemon: Daemon) -> Answers:  # noqa: F811, the fixture
    return carried_out(daemon, CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(found: Answers, case: Case) -> None:
    """The daemon does what the case says of every engine."""
    verify(case, found)
