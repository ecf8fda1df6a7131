# SPDX-License-Identifier: Apache-2.0
"""The checks' engine and slices on a simulated card."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cgpu import paths
from tests.gpu.node import MIB, PROBE, Node, NodeError, driver_version

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """An engine with a simulated T4."""
    found = Node(tmp_path_factory.mktemp("node"), "580.142", "T4")
    yield found
    found.stop()


def test_slice(node: Node) -> None:
    """A program in a slice is spoken with, its charges are seen, and they are gone when it ends."""
    node.use(enforce=True)
    assert driver_version(paths.SIM) == "580.142"
    with node.slice("1G") as one:
        assert (one.limit(), one.used()) == (1024 * MIB, 0)
        one.begin(["/bin/sh", "-c", f"head -n 1 | {PROBE} fill=64M hold free=all info"])
        assert one.settles(1024 * MIB)
        one.tell()
        with pytest.raises(NodeError, match=r"the program ended.* used=0 "):
            one.told()
        assert one.settles(0)
        one.begin(["/bin/echo", '{"a": 1}'])
        assert one.told() == {"a": 1}
        assert one.ended() == ""
    assert node.instances() == []
