# SPDX-License-Identifier: Apache-2.0
"""Every driver version with layouts of its own."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest

from tests.sim.abi import ALLOC, PAGE_BIG, VIDEO, Status, command, errno_of, facts, key, layout
from tests.sim.conftest import Start


def layout_of(version: str) -> tuple[tuple[str, int, tuple[tuple[str, tuple[int, int]], ...]], ...]:
    """Return everything that tells two versions apart."""
    rows = []
    for name in facts()["structs"]:
        try:
            form = layout(name, version)
        except KeyError:
            continue
        rows.append((name, form.size, tuple(form.fields.items())))
    return tuple(rows)


def turning_points() -> list[str]:
    """Return the first and the last version of each stretch with the same layouts."""
    tags = sorted(facts()["tags"], key=key)
    found = {tags[0], tags[-1]}
    for before, after in pairwise(tags):
        if layout_of(before) != layout_of(after):
            found |= {before, after}
    return sorted(found, key=key)


@pytest.mark.parametrize("version", turning_points())
def test_layouts_of_a_version(start: Start, version: str) -> None:
    """Memory is had and seen with the layouts of this version, and no other sizes work."""
    sim = start("T4=64", version)
    for words in (["via=rm64"], ["via=rm21"], ["via=heap"], ["xfer"]):
        sim.lines(
            *words,
            "info",
            "alloc=64K",
            "alloc=2M:huge",
            "dup",
            "export",
            "import",
            "free=all",
            "count",
            "pids",
        )
    with sim.client() as client:
        for small in (False, True):
            params = client.memory(PAGE_BIG)
            assert client.alloc(client.device, VIDEO, params, small=small)[0] == Status.OK
        assert sim.used() == 2 * PAGE_BIG
        sizes = {sim.layout("NVOS21_PARAMETERS").size, sim.layout("NVOS64_PARAMETERS").size}
        for size in {32, 40, 48} - sizes:
            assert errno_of(client.ctl, command(ALLOC, size), bytearray(48)) == errno.EINVAL
    sim.stop()
