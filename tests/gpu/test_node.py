# SPDX-License-Identifier: Apache-2.0
"""The checks' engine and slices, and the facts that need no CUDA, on a simulated card."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cgpu import paths
from tests.gpu import facts
from tests.gpu.node import MIB, PROBE, Node, NodeError, driver_free, driver_version

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


def test_facts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts that need no CUDA are there; what is free of the card is asked outside of slices."""
    node.use(enforce=True)
    monkeypatch.setattr(facts, "DEV", paths.SIM)
    assert driver_free(paths.SIM) == 15109 * MIB
    assert driver_version(paths.SIM) == "580.142"
    found = facts.gather(["versions", "driver"])
    assert found["driver"]["known"]
    assert found["driver"]["checks"][f"{paths.SIM}/nvidia0: mappings of UVM"] == "passed"
    assert "Tesla T4" in found["versions"]["card"]
