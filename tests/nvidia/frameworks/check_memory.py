# SPDX-License-Identifier: Apache-2.0
"""PyTorch's and CuPy's allocators in a slice of a simulated T4 (scripts/test-frameworks)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nvidia.containers import Node
from tests.nvidia.frameworks.wheels import clocks, framework
from tests.nvidia.machines import LIMIT, VERSIONS, machine, run
from tests.nvidia.software import PACKAGES, software

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("program.py")
MIB = 1 << 20
CONTEXT = 256  # MiB that a context takes at most
# Framework and setting of each allocator; its pieces from the driver leave so many MiB at most.
ALLOCATORS = {
    "cupy": ("cupy", "", 4),
    "cupy-async": ("cupy", "", 34),
    "torch": ("torch", "", 22),
    "torch-expandable": ("torch", "expandable_segments:True", 22),
    "torch-async": ("torch", "backend:cudaMallocAsync", 56),
}


@pytest.fixture(scope="module", params=VERSIONS)
def box(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Return a machine of each release in turn, with the program in its containers."""
    software(request.param, (*PACKAGES, "libcuda1"))
    with machine(request.param, more=[PROGRAM.parent]) as made:
        yield made


def outcome(box: Node, allocator: str) -> dict[str, int | str | bool]:
    """Return what the program has in a slice."""
    name, conf, _ = ALLOCATORS[allocator]
    step = allocator if name == "cupy" else name
    variables = {
        "LD_PRELOAD": f"$LD_PRELOAD:{clocks()}",
        "PYTHONPATH": str(framework(name)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    variables |= {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
    words = " ".join(f"{key}={value}" for key, value in variables.items())
    printed = run(box.sliced, f"{words} python3 {PROGRAM} {step}")
    found: dict[str, int | str | bool] = json.loads(printed.splitlines()[-1])
    print(allocator, found)
    return found


@pytest.mark.enforcement
@pytest.mark.parametrize("allocator", list(ALLOCATORS))
def check_fill(box: Node, allocator: str) -> None:
    """A framework sees the slice, fills it to its end, has its own error for no memory, and goes on."""
    found = outcome(box, allocator)
    before, filled = int(found["before"]), int(found["filled"])
    assert found["total"] == LIMIT * MIB
    assert (LIMIT - CONTEXT) * MIB < before < LIMIT * MIB
    assert before - ALLOCATORS[allocator][2] * MIB <= filled <= before
    assert str(found["error"]).startswith("OutOfMemoryError: ")
    assert int(found["after"]) >= before - 64 * MIB
    assert found["again"] is True
