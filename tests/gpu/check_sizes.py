# SPDX-License-Identifier: Apache-2.0
"""Sizes of the card that a program in a slice of 6 GiB reads."""

from __future__ import annotations

import pytest

from tests.gpu.node import MIB, Node, program

pytestmark = pytest.mark.gpu

MEM = "6G"
SLICE_MIB = 6144
SMI = ["nvidia-smi", "--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader,nounits"]


def smi(node: Node) -> list[int]:
    """Return total, used and free MiB by nvidia-smi in a slice."""
    with node.slice(MEM) as one:
        one.begin(SMI)
        return [int(word) for word in one.ended().split(",")]


@pytest.mark.parametrize("words", [("memory", "info"), ("frameworks", "torch-info")], ids=" ".join)
def check_sizes(held: Node, words: tuple[str, str]) -> None:
    """CUDA and PyTorch say 6 GiB in total, and no more than that is free."""
    with held.slice(MEM) as one:
        told = one.run(program(*words))
    assert told["total"] == SLICE_MIB * MIB
    assert told["free"] <= SLICE_MIB * MIB


def check_smi(held: Node) -> None:
    """nvidia-smi says 6144 MiB."""
    total, used, free = smi(held)
    assert total == SLICE_MIB
    assert used + free <= SLICE_MIB


def check_context(held: Node) -> None:
    """Memory of a context and its first kernel is charged, and comes back when the program ends."""
    taken = []
    with held.slice(MEM) as one:
        one.begin(program("steps"))
        one.told()
        for word in ("context", "kernel"):
            one.tell(word)
            assert "error" not in one.told()
            taken.append(one.used())
        one.tell("stop")
        one.ended()
        assert one.settles(0)
    print(f"bytes that a context takes, and with its first kernel: {taken}")
    assert 0 < taken[0] <= taken[1]


def check_sizes_without(lax: Node) -> None:
    """With enforcement off all three say the card's own size."""
    with lax.slice(MEM) as one:
        for words in (("memory", "info"), ("frameworks", "torch-info")):
            assert one.run(program(*words))["total"] > SLICE_MIB * MIB, words
    assert smi(lax)[0] > SLICE_MIB
