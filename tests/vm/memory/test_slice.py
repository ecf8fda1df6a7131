# SPDX-License-Identifier: Apache-2.0
"""A container's view of its slice under the module, and how much of it it can have."""

from __future__ import annotations

import pytest

from tests.integration.probe import NO_MEMORY, step, steps
from tests.integration.test_slice import LIMIT, SIZES, SLICE
from tests.vm.harness.counts import count as times
from tests.vm.harness.sliced_node import SlicedNode

# In one piece each with full counts: that is a hundred thousand.
PAGES = times(("fill=64M:64k", "fill=64K:64k"), ("fill=64K:64k",))


@pytest.mark.enforcement
def test_slice_is_exact(node: SlicedNode) -> None:
    """6 of 15 of a T4 is 6043 MiB in all five answers, and that many bytes in 64 KiB pages on the card."""
    words = ["info", *PAGES, "info", "expect=0x51", "alloc=64K:64k", "alloc=4K:4k", "count", "hold=600"]
    holder = node.containers.start(["/cgpu-probe", *words], SLICE, name="exact")
    holder.await_output("count ", timeout=120)
    view = node.view()
    holder.stop()
    node.containers.delete("exact")
    outcome = holder.finished()
    seen, full = step(outcome, "info"), step(outcome, "info", 1)
    had = [one for one in steps(outcome) if one.name == "fill"]
    assert {seen.number(field) for field in SIZES} == {LIMIT}
    assert (sum(one.number("bytes") for one in had), had[-1].number("status")) == (LIMIT, NO_MEMORY)
    assert full.number("free") == full.number("heap_free") == full.number("v1_free") == 0
    assert [one.number("status") for one in steps(outcome) if one.name == "alloc"] == [NO_MEMORY] * 2
    assert view.cards[0]["used"] == view.used[0, "exact"] == view.limits[0, "exact"] == LIMIT
