# SPDX-License-Identifier: Apache-2.0
"""The simulated card's turns and slices are in the order and of the lengths of the hardware's documents."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.gpu.work_card import UNIT, Card, build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("work"))


@given(
    counts=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)).filter(any),
    slices=st.integers(1, 4),
)
def test_interleave_levels_give_the_published_numbers_of_turns(
    library: ctypes.CDLL, counts: tuple[int, int, int], slices: int
) -> None:
    """In a round of the runlist a LOW group has one turn, MEDIUM one per LOW, HIGH (MEDIUM + 1) per LOW."""
    high, medium, low = counts
    card = Card(library)
    levels = [level for level, count in ((2, high), (1, medium), (0, low)) for _ in range(count)]
    turns = {
        0: 1,
        1: low or 1,
        2: (medium + 1) * low or medium or 1,
    }
    card.interleave(on=True)
    groups = [card.group(us=slices) for _ in levels]
    for group, level in zip(groups, levels, strict=True):
        assert card.level(group, level) == 0
        card.submit(card.channel(group), 10**9, 1)
    card.restart()
    start = [card.of_group(group).busy for group in groups]
    rounds = 3
    card.advance(card.now + rounds * sum(turns[level] for level in levels) * slices * UNIT)
    got = [card.of_group(group).busy - before for group, before in zip(groups, start, strict=True)]
    assert got == [rounds * turns[level] * slices * UNIT for level in levels]


@given(us=st.one_of(st.integers(0, 600), st.integers(0, 2**24)))
def test_slices_are_what_the_hardware_has(library: ctypes.CDLL, us: int) -> None:
    """A slice becomes the longest the hardware has that is not above it; 0 becomes the shortest."""
    possible = {timeout << scale for timeout in range(1, 256) for scale in range(16)}
    best = max((one for one in possible if one <= us), default=1)
    assert library.work_slice(ctypes.c_uint64(us)) == best * UNIT
