# SPDX-License-Identifier: Apache-2.0
"""Containers that share a card under the module."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.integration.probe import NO_MEMORY, step, steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.harness.sliced_node import SlicedNode

FILL = ("fill=512M:2m", "fill=1M:64k")
THIRD = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "3"}


@pytest.mark.enforcement
def test_neither_reaches_into_the_other(node: SlicedNode) -> None:
    """Whatever one container holds, the other gets its whole slice, not a page more, and lends none."""
    with node.idle("first", SLICE), node.idle("second", SLICE):
        with node.holding("first", *FILL):
            outcome = node.exec(
                "second",
                ["/cgpu-probe", "info", *FILL, "alloc=64K:64k"],
                ["/cgpu-probe", *FILL, "info", "exit-dirty"],
            )
            view = node.view()
        alone = node.exec("second", ["/cgpu-probe", *FILL, "alloc=64K:64k"])
    assert step(outcome, "info").number("free") == LIMIT
    fills = [one.number("bytes") for one in steps(outcome) if one.name == "fill"]
    assert [sum(fills[:2]), sum(fills[2:])] == [LIMIT, LIMIT]
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    # The second has ended: what the card has left is the first one's, to the byte.
    assert view.cards[0]["used"] == view.used[0, "first"] == LIMIT
    assert view.used[0, "second"] == 0
    assert view.cards[0]["peak"] == 2 * LIMIT
    assert sum(one.number("bytes") for one in steps(alone) if one.name == "fill") == LIMIT
    assert step(alone, "alloc").number("status") == NO_MEMORY


def test_more_than_the_card_is_never_promised(node: SlicedNode) -> None:
    """A third container that would promise more than the card has is refused, and told what is left."""
    with node.idle("one", SLICE), node.idle("two", SLICE):
        third = node.containers.run(["/cgpu-probe", "info"], SLICE, name="third")
        instances = node.instances()
        fits = node.containers.run(["/cgpu-probe", "info"], THIRD, name="fits")
    assert third.returncode != 0
    assert f"{15109 - 2 * 6043} MiB" in third.text
    assert instances == ["one", "two"]
    assert step(fits, "info").number("total") == 3021 * MIB
