# SPDX-License-Identifier: Apache-2.0
"""Sizes of cards and shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.kubernetes.node.devices import quantity
from cgpu.kubernetes.node.units import UNITS, Unit, published_mib, share_mib

CARDS = st.integers(1, 1 << 22)


@pytest.mark.parametrize(
    ("card", "gib", "asked", "share"),
    [(15109, 15, 6, 6043), (16130, 16, 8, 8065), (23028, 23, 23, 23028), (143771, 141, 1, 1019)],
)
def test_known_cards(card: int, gib: int, asked: int, share: int) -> None:
    """A T4 is one of 15 GiB, and 6 of 15 are 6043 MiB, as with the variables."""
    assert published_mib(card, "card") == gib * 1024
    assert share_mib(card, asked * 1024, "card") == share


@given(CARDS, st.lists(st.integers(1, 1 << 22), max_size=30), st.sampled_from(UNITS))
def test_shares_fit_their_card(card: int, asked: list[int], unit: Unit) -> None:
    """Shares that fit the published size fit the card, and none is larger than its request."""
    while sum(asked) > published_mib(card, unit):
        asked.pop()
    shares = [share_mib(card, one, unit) for one in asked]
    assert sum(shares) <= card
    assert all(share <= one for share, one in zip(shares, asked, strict=True))
    assert share_mib(card, published_mib(card, unit), unit) == card


@pytest.mark.parametrize(
    ("mib", "text"), [(1, "1Mi"), (15360, "15Gi"), (15109, "15109Mi"), (1 << 20, "1Ti"), (3 << 30, "3072Ti")]
)
def test_quantities_are_in_the_canonical_form(mib: int, text: str) -> None:
    """A quantity has the form that the API server would write, so that a slice is not written again."""
    assert quantity(mib) == text
