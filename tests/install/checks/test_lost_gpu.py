# SPDX-License-Identifier: Apache-2.0
"""What is said of GPUs that the driver has lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.install.checks import engine
from cgpu.install.node.snapshot import Card, Snapshot
from tests.exporter.trees import gpu_line
from tests.install.machine import node_report


def gpu(index: int, stat: str) -> Card:
    return Card(index, {"uuid": f"GPU-{index}", "stat": stat}, ())


LOST = gpu(0, gpu_line("GPU-0", lost=1))
WELL = gpu(1, gpu_line("GPU-1"))


@pytest.mark.parametrize(
    ("cards", "verdict"),
    [((LOST,), "problem"), ((LOST, WELL), "warning"), ((WELL,), "ok"), ((gpu(0, "odd"),), "ok")],
)
def test_lost(tmp_path: Path, cards: tuple[Card, ...], verdict: str) -> None:
    """A lost GPU is named; where all are, no slice can start. An engine that does not say is no problem."""
    (found,) = engine.lost(node_report(tmp_path, snapshot=Snapshot({}, cards)))
    assert found.verdict == verdict
    assert ("GPU 0: fallen off the bus" in found.text) is (LOST in cards)


def test_without_a_tree(tmp_path: Path) -> None:
    """Nothing is said where the tree cannot be read."""
    (found,) = engine.lost(node_report(tmp_path))
    assert found.verdict == "skipped"
