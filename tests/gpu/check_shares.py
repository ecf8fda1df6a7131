# SPDX-License-Identifier: Apache-2.0
"""Shares of a real card's time, by what programs get done in the same seconds."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.gpu.node import Node, Slice, program

pytestmark = pytest.mark.gpu

SPIN_S = 5
WITHIN = 0.03
FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT, NATIVE = range(6)
MAX_INST = 20


def launches(slices: list[Slice]) -> list[int]:
    """Return how many kernels each of the programs ran in the same seconds."""
    for one in slices:
        one.tell(f"spin {SPIN_S}")
    return [one.told()["launches"] for one in slices]


def begin(held: Node, stack: ExitStack, weights: list[int]) -> list[Slice]:
    """Start a slice for each weight, with a program that has run its first kernel."""
    slices = [stack.enter_context(held.slice("1G", weight)) for weight in weights]
    for one in slices:
        one.begin(program("steps"))
        one.told()
        for word in ("context", "kernel"):
            one.tell(word)
            assert "error" not in one.told()
    return slices


def end(slices: list[Slice]) -> None:
    for one in slices:
        one.tell("stop")
        one.ended()


def enforceable(held: Node, policy: int) -> None:
    """Skip where the engine says that it cannot enforce a policy on this driver."""
    held.set("policy", policy)
    if held.divided_by() == "nobody":
        pytest.skip(f"policy {policy}: the driver does not do what it needs; cgpud's log says what")


@pytest.mark.parametrize(
    "weights", [[1, 1], [1, 2], [1, 4], [2, 3, 5]], ids=lambda weights: ":".join(map(str, weights))
)
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def check_weights(held: Node, policy: int, weights: list[int]) -> None:
    """Programs get work done in proportion to their weights."""
    with ExitStack() as stack:
        slices = begin(held, stack, weights)
        enforceable(held, policy)
        launches(slices)
        done = launches(slices)
        end(slices)
    print(f"policy {policy} weights {weights} launches {done}")
    for weight, count in zip(weights, done, strict=True):
        assert count / sum(done) == pytest.approx(weight / sum(weights), rel=WITHIN)


@pytest.mark.parametrize("neighbours", [0, 1, 2])
def check_cap(held: Node, neighbours: int) -> None:
    """Policy 3 at a quarter holds, alone and beside others."""
    with ExitStack() as stack:
        slices = begin(held, stack, [5, *[5] * neighbours])
        held.set("policy", NATIVE)
        alone = launches(slices[:1])[0]
        enforceable(held, FIXED)
        launches(slices)
        done = launches(slices)
        end(slices)
    print(f"policy 3, 5 of {MAX_INST}: {done}, alone and unlimited {alone}")
    for count in done:
        assert count / alone == pytest.approx(0.25, rel=WITHIN)


@pytest.mark.parametrize("policy", [PREEMPTIVE, WEIGHT, SOFT])
def check_throughput(held: Node, policy: int) -> None:
    """All together get as much done as under the driver's own scheduling."""
    with ExitStack() as stack:
        slices = begin(held, stack, [1, 1])
        held.set("policy", NATIVE)
        native = sum(launches(slices))
        enforceable(held, policy)
        launches(slices)
        done = sum(launches(slices))
        end(slices)
    print(f"policy {policy}: {done} launches, by the driver's own scheduling {native}")
    assert done / native > 1 - WITHIN
