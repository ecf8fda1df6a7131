# SPDX-License-Identifier: Apache-2.0
"""PyTorch, CuPy and JAX in a slice of 6 GiB."""

from __future__ import annotations

import pytest

from tests.gpu.node import MIB, Node, program

pytestmark = pytest.mark.gpu

MEM = "6G"
SLICE_MIB = 6144
BLOCK_MIB = 64


def check_torch_fills(held: Node) -> None:
    """PyTorch fills the slice, gets its ordinary out-of-memory one block later, and goes on to work."""
    with held.slice(MEM) as one:
        one.begin(program("frameworks", "torch-fill", str(2 * SLICE_MIB)))
        told = one.told()
        one.ended()
        assert told["error"] == "OutOfMemoryError"
        assert told["kept"] is True
        assert told["works_on"] is True
        # A block of the allocator is left, and memory that CUDA took for the context.
        assert (SLICE_MIB - 1024) * MIB < told["taken"] < SLICE_MIB * MIB
        assert one.settles(0)


def check_torch_fills_without(lax: Node) -> None:
    """With enforcement off PyTorch gets more than the slice."""
    with lax.slice(MEM) as one:
        told = one.run(program("frameworks", "torch-fill", str(SLICE_MIB + 4 * BLOCK_MIB)))
    assert told["error"] == ""
    assert told["taken"] > SLICE_MIB * MIB


@pytest.mark.parametrize("word", ["torch-train", "cupy", "jax"])
def check_framework(held: Node, word: str) -> None:
    """A framework's program runs to its end with the right result, and leaves nothing."""
    with held.slice(MEM) as one:
        assert one.run(program("frameworks", word))["ok"] is True
        assert one.settles(0)
