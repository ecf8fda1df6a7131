# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over the kernel module, with two cards of the fake driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.steps import Case
from tests.conformance.suite import ROOT, Answers, Place, answers, command, suite, verify
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import TREE, load_driver, load_engine, unload_driver, unload_engine

pytestmark = pytest.mark.fake_driver("two cards; nvidia/test_conformance.py has what suits one")

CASES = suite("cgpu_km", "195", times=count(10, 300))


@pytest.fixture(scope="module")
def found(machine: Machine) -> Iterator[Answers]:
    """Carry out all cases in one executor, which starts once: Python is slow under emulation."""
    load_driver(machine, cards="T4:2")
    load_engine(machine)
    root = type(ROOT)(machine.seen(ROOT))
    place = Place(TREE, "/dev", cgroups=True, root=root, reclaims=count(False, True))
    done = machine.run(command(root), input=place.plan(CASES), timeout=count(240, 1200), check=False)
    # A run that broke off has answers up to there: the tests of the cases after it fail, and say so.
    yield answers(done.stdout) if done.returncode == 0 or done.stdout else answers(done.check().stdout)
    unload_engine(machine)
    unload_driver(machine)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(found: Answers, case: Case) -> None:
    """The module does what the case says of every engine."""
    verify(case, found)
