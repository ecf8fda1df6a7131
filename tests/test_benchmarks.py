# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of lives make of their figures: the bar, and whether lives can be told apart."""

from __future__ import annotations

import pytest

from benchmarks.life import BAR, bar, failed, rank_sum


@pytest.mark.parametrize(
    ("slice_adds", "peer_adds", "end"),
    [(8, 10, "met"), (8.01, 10, "MISSED"), (-1, 10, "met"), (1, 0, "NOT MEASURED"), (1, -3, "NOT MEASURED")],
)
def test_bar(slice_adds: float, peer_adds: float, end: str) -> None:
    """Of what the peer adds a slice adds so much at most; a peer that adds nothing measures nothing."""
    line = bar(slice_adds, peer_adds)
    assert line.endswith(end)
    assert failed([line]) == ([] if end == "met" else [line])
    assert (f"at most {BAR}" in line) == (peer_adds > 0)


def test_rank_sum() -> None:
    """Equal lives are greater half of the time, by chance; those that are always greater are no chance."""
    assert rank_sum([1, 2, 3], [1, 2, 3]) == (0.5, 1.0)
    longer, chance = rank_sum(range(20, 40), range(20))
    assert longer == 1
    assert chance < 1e-6
    # By hand: 9 of 9 pairs, a mean of 4.5, a deviation of sqrt(9 * 7 / 12).
    longer, chance = rank_sum([1, 2, 3], [4, 5, 6])
    assert longer == 0
    assert chance == pytest.approx(0.0495, abs=0.0001)
