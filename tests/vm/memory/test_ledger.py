# SPDX-License-Identifier: Apache-2.0
"""Events that could be taken for the end of a charge, and are none: the memory is still the container's."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.vm.harness.slices import Stage, figures
from tests.vm.programs import build

LIMIT = 1024 * MIB
PIECE = 64 * MIB
SECONDS = 60
BY_UVM = [pytest.param(way, marks=pytest.mark.real_driver) for way in ("holder", "exporter")]


def rest(staged: Stage, *words: object) -> dict[str, int]:
    """Run the program of these cases in a container until it rests; return its figures."""
    process = staged.start(staged.slice("ledger", LIMIT), build("ledger"), *words)
    return figures(process, staged.machine.scaled(SECONDS))


@pytest.mark.enforcement
@pytest.mark.parametrize("way", ["linked", "closed", "many", *BY_UVM])
def test_charges_outlive(staged: Stage, way: str) -> None:
    """Linked and closed control files, clients of the engine's and of the driver's own, end no charge."""
    told = rest(staged, way, PIECE)
    seen = staged.view()
    assert told["before"] + told["after"] == LIMIT, told
    assert (seen.used[0, "ledger"], seen.cards[0]["used"], seen.cards[0]["peak"]) == (LIMIT, LIMIT, LIMIT)


def test_an_answer_inside_of_its_question(staged: Stage) -> None:
    """A call whose structures overlap tells nothing of the card's true size."""
    assert rest(staged, "overlap")["told"] in (0, LIMIT)
