# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over both engines on NVIDIA's own driver, with one card in software."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.conformance.select import with_one_card
from tests.conformance.steps import Case
from tests.conformance.suite import ROOT, Answers, Place, suite, verify
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.isolation.test_conformance import SECONDS, carry_out, module
from tests.vm.nvidia import daemon
from tests.vm.nvidia.out_of_reach import REASONS, TOO_LARGE

MODULE, DAEMON = "cgpu_km", "cgpud"
TIMES = count(10, 300)
pytestmark = [pytest.mark.real_driver, pytest.mark.timeout(SECONDS + 180)]

CASES = {
    engine: [case for case in with_one_card(suite(engine, "195", times=TIMES)) if case.name != TOO_LARGE]
    for engine in (MODULE, DAEMON)
}


@contextmanager
def cgpud(machine: Machine) -> Iterator[Place]:
    running = daemon.begin(machine)
    root = type(ROOT)(machine.seen(ROOT))
    before = tuple(daemon.sliced_command("{id}"))
    yield Place(daemon.TREE, "/dev", cgroups=True, before=before, root=root, reclaims=count(False, True))
    daemon.end(running)


ENGINES = {MODULE: module, DAEMON: cgpud}
Found = Callable[[str], Answers]


@pytest.fixture(scope="module")
def found(machine: Machine) -> Found:
    """Return what an engine answers, which is loaded and asked once, and gone then."""
    known: dict[str, Answers] = {}

    def of(engine: str) -> Answers:
        if engine not in known:
            with ENGINES[engine](machine) as place:
                known[engine] = carry_out(machine, place, CASES[engine])
        return known[engine]

    return of


def cases() -> Iterator[object]:
    """Give each engine's cases; those that cannot pass have to fail."""
    for engine, fitting in CASES.items():
        for case in fitting:
            why = REASONS.get((engine, case.name))
            marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
            yield pytest.param(engine, case, id=f"{engine}-{case.name}", marks=marks)


@pytest.mark.parametrize(("engine", "case"), list(cases()))
def test_conformance(found: Found, engine: str, case: Case) -> None:
    """The engine does over NVIDIA's driver what the case says of every engine."""
    verify(case, found(engine))
