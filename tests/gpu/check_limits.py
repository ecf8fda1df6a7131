# SPDX-License-Identifier: Apache-2.0
"""The limit, by each of CUDA's ways to memory.

CUDA asks the driver for whole pieces, and the rest of a slice at the refusal is less than a block and a
piece: 2 MiB for cudaMalloc, cuMemCreate and managed memory, 32 MiB for pools (cudaMallocAsync, graphs).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.node import MIB, Node, Slice, program

pytestmark = pytest.mark.gpu

MEM = "3G"
SLICE_MIB = 3072
BLOCK_MIB = 16
PIECE_MIB = {"malloc": 2, "vmm": 2, "managed": 2, "async": 32, "graph": 32}
# So far a program goes on that is not refused: never near to what the card has.
STOP_MIB = SLICE_MIB + 512


def fill(one: Slice, kind: str) -> dict[str, Any]:
    """Start to fill a slice; return what the program told."""
    one.begin(program("memory", "fill", kind, str(BLOCK_MIB), str(STOP_MIB)))
    return one.told()


@pytest.mark.parametrize("kind", PIECE_MIB)
def check_limit(held: Node, kind: str) -> None:
    """The slice is full when memory is refused, free says so, and afterwards nothing is charged."""
    with held.slice(MEM) as one:
        told = fill(one, kind)
        used = one.used()
        assert "OUT_OF_MEMORY" in told["error"]
        assert told["taken"] <= used <= one.limit()
        assert one.limit() - used < (BLOCK_MIB + PIECE_MIB[kind]) * MIB
        assert told["free"] == one.limit() - used
        one.tell()
        after = one.told()
        assert after["kept"] is True
        assert after["free"] >= told["before"] - PIECE_MIB[kind] * MIB
        one.tell()
        one.ended()
        assert one.settles(0)
    assert held.instances() == []


@pytest.mark.parametrize("kind", PIECE_MIB)
def check_limit_without(lax: Node, kind: str) -> None:
    """With enforcement off the same program gets more than the slice."""
    with lax.slice(MEM) as one:
        told = fill(one, kind)
        assert told["error"] == ""
        assert told["taken"] > one.limit()
        one.tell()
        one.told()
        one.tell()
        one.ended()


@pytest.mark.parametrize("kind", ["ipc", "export"])
def check_sharing(held: Node, kind: str) -> None:
    """Memory that a second process of the slice opens is charged once, or refused; then nothing is left."""
    with held.slice(MEM) as one:
        told = one.run(program("sharing", kind, "64"))
        print(told)
        if "refused" not in told:
            assert told["read"] == told["expected"]
        assert told["after"] >= told["before"] - 2 * MIB
        assert one.settles(0)
