# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of lives make of their figures: medians, the bar, and what they exit with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import module_life
from benchmarks.life import BAR, PLAIN, SLICED, WHOLE_CARD, Life, bar, failed, rank_sum, report


def life(variant: str, *times: float, way: str = "runc") -> Life:
    return Life(way, variant, lambda: None, times=list(times))


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


@pytest.mark.parametrize(
    ("peer", "count"),
    [([30.0, 40, 50], 0), ([22.0, 22, 22], 1), ([20.0, 19, 18], 1), ([], 0)],
    ids=["met", "missed", "adds nothing", "not given"],
)
def test_report(capsys: pytest.CaptureFixture[str], peer: Sequence[float], count: int) -> None:
    """Medians with their quarters, what is added to the plain life, and the bars that fail."""
    lives = [life(PLAIN, 20, 10, 30), life(SLICED, 24, 25, 24)]
    lives += [life(WHOLE_CARD, *peer)] if peer else []
    lines = report(lives)
    said = capsys.readouterr().out
    assert len(lines) == count
    assert all(line.startswith("runc: bar: ") and line in said for line in lines)
    assert ("bar: " in said) == bool(peer)
    assert "20.0 ms (10.0 to 30.0)" in said
    assert "+  4.0 ms (1.20x)" in said
    assert "3 of each cannot be told apart" in said


def test_report_of_a_life_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """A bar that is due fails where the machine could not run one of its lives."""
    lives = [life(PLAIN, 20), life(SLICED, 24), life("part", 3, way="part")]
    lines = report(lives, due=["runc"])
    assert lines == ["runc: bar: NVIDIA's runtime, the card was not run: NOT MEASURED"]
    assert lines[0] in capsys.readouterr().out
    assert report([life("x", 1)], due=["runc"])[0].startswith("runc: bar: plain, a slice, NVIDIA's runtime")


@pytest.mark.parametrize(
    ("peer", "count"),
    [({WHOLE_CARD: [40.0]}, 0), ({WHOLE_CARD: [21.0]}, 1), ({WHOLE_CARD: [9.0]}, 1), ({}, 0)],
)
def test_report_with_the_module(
    capsys: pytest.CaptureFixture[str], peer: dict[str, list[float]], count: int
) -> None:
    """The same bar in the virtual machine."""
    lines = module_life.report("crun", {PLAIN: [20.0], SLICED: [24.0], **peer})
    assert len(lines) == count
    assert ("crun: bar: " in capsys.readouterr().out) == bool(peer)
