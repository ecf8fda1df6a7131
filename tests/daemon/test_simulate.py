# SPDX-License-Identifier: Apache-2.0
"""The cards that --simulate takes."""

from __future__ import annotations

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon import simulate


@pytest.mark.parametrize("cards", ["T4", "V100:2", "A10=1024", "H200=143771:32", "A100-80GB:2/mig=1"])
def test_cards(cards: str) -> None:
    """The forms of the command line; capitals or not is the same."""
    assert simulate.check_cards(cards) == cards
    assert simulate.check_cards(cards.lower()) == cards


@pytest.mark.parametrize(
    "cards", ["", "T4:0", "T4:33", "T4=0", "T4=-1", "T4:2=3", "T4\n", "4T", "T4=1:", "T4/MIG=0"]
)
def test_bad_cards(cards: str) -> None:
    """Anything else is refused with what is expected."""
    with pytest.raises(CgpuError, match="expected MODEL"):
        simulate.check_cards(cards)
