# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over the kernel module, with two cards of the fake driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conformance.steps import Case
from tests.conformance.suite import ROOT, Answers, Place, answers, command, suite, verify
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import TREE, load_driver, load_engine, unload_driver, unload_engine

pytestmark = pytest.mark.fake_driver("two cards; nvidia/test_conformance.py has what suits one")

SECONDS = count(400, 1500)
CASES = suite("cgpu_km", "195", times=count(10, 300))


@contextmanager
def module(machine: Machine, cards: str = "T4:1") -> Iterator[Place]:
    """Have driver and module; return where they are."""
    load_driver(machine, cards=cards)
    load_engine(machine)
    root = type(ROOT)(machine.seen(ROOT))
    yield Place(TREE, "/dev", cgroups=True, root=root, reclaims=count(False, True))
    unload_engine(machine)
    unload_driver(machine)


def carry_out(machine: Machine, place: Place, cases: list[Case]) -> Answers:
    """Carry out cases in one executor, which starts once: Python is slow under emulation."""
    done = machine.run(command(place.root), input=place.plan(cases), timeout=SECONDS, check=False)
    # A run that broke off has answers up to there: the tests of the cases after it fail, and say so.
    return answers(done.stdout) if done.returncode == 0 or done.stdout else answers(done.check().stdout)


@pytest.fixture(scope="module")
def found(machine: Machine) -> Iterator[Answers]:
    with module(machine, "T4:2") as place:
        yield carry_out(machine, place, CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(found: Answers, case: Case) -> None:
    """The module does what the case says of every engine."""
    verify(case, found)
