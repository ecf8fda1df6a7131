# SPDX-License-Identifier: Apache-2.0
"""Two slices on one card."""

from __future__ import annotations

import pytest

from tests.gpu.node import MIB, Node, program

pytestmark = pytest.mark.gpu

MEM = "4G"
SLICE_MIB = 4096
BLOCK_MIB = 16


def filling(value: int) -> list[str]:
    """Return a program that fills its slice and all blocks in it with a value."""
    return program("memory", "fill", "malloc", str(BLOCK_MIB), str(2 * SLICE_MIB), str(value))


def check_side_by_side(held: Node) -> None:
    """Two programs that fill their slices at once get the same, and find what they wrote."""
    with held.slice(MEM) as left, held.slice(MEM) as right:
        left.begin(filling(1))
        right.begin(filling(2))
        told = [left.told(), right.told()]
        assert abs(told[0]["taken"] - told[1]["taken"]) <= BLOCK_MIB * MIB
        assert all(one.limit() - one.used() < 2 * BLOCK_MIB * MIB for one in (left, right))
        for one in (left, right):
            one.tell()
            assert one.told()["kept"] is True
            one.tell()
            one.ended()
        assert left.settles(0)
        assert right.settles(0)


def check_work_beside_refusals(held: Node) -> None:
    """A model trains to its end while a neighbour runs into its limit, again and again."""
    with held.slice(MEM) as left, held.slice(MEM) as right:
        left.begin(program("frameworks", "torch-train"))
        for _ in range(2):
            right.begin(filling(3))
            assert "OUT_OF_MEMORY" in right.told()["error"]
            right.tell()
            right.told()
            right.tell()
            right.ended()
        assert left.told()["ok"] is True
        left.ended()
        assert left.settles(0)
