# SPDX-License-Identifier: Apache-2.0
"""Death of containers and of the runtime at bad moments; no daemon is there to clean up."""

from __future__ import annotations

import pytest

from tests.integration.commands import eventually
from tests.integration.probe import steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.harness.counts import count
from tests.vm.harness.node import TREE
from tests.vm.harness.sliced_node import SlicedNode

FILL = ("fill=512M:2m", "fill=1M:64k")


def directories(node: SlicedNode) -> str:
    """Return the tree's directories of containers, also of one whose files cannot be read."""
    return node.machine.shell(f"cd {TREE}; ls -d [0-9]*/*/", check=False).stdout


def test_container_killed(node: SlicedNode) -> None:
    """After kill -9 of its first process nothing is left of a container, without poststop."""
    for turn in range(count(2, 5)):
        name = f"killed{turn}"
        words = ["/cgpu-probe", *FILL, "fork=3:1M", "hold=600"]
        assert node.containers.detach(name, words, SLICE).returncode == 0
        eventually(lambda name=name: node.used(name) == LIMIT, "it holds all", 60)  # type: ignore[misc]  # mypy cannot infer a default of a lambda
        assert f"0/{name}/" in directories(node)
        node.machine.run(["kill", "-9", str(node.containers.pid(name))])
        node.await_empty()
        eventually(lambda: not directories(node), "its directory has gone", node.machine.scaled(60))
        node.containers.delete(name)
    outcome = node.containers.run(["/cgpu-probe", *FILL], SLICE)
    assert sum(one.number("bytes") for one in steps(outcome)) == LIMIT


@pytest.mark.parametrize("moment", ["before", "start", "running"])
def test_runtime_killed(node: SlicedNode, moment: str) -> None:
    """kill -9 of the runtime, early, while it starts and later: nothing is left, and the next one starts."""
    runtime = node.containers.start(["/cgpu-probe", "alloc=1G", "hold=600"], SLICE, name="victim")
    if moment == "before":
        runtime.until(lambda: False, 0.3)
    if moment == "start":
        eventually(lambda: node.instances() == ["victim"], "it is registered", 60)
    if moment == "running":
        runtime.await_output("alloc ")
        assert node.used("victim") == 1 << 30
    runtime.stop()
    node.containers.delete("victim")
    node.await_empty()
    assert node.containers.run(["/cgpu-probe", "info"], SLICE).returncode == 0
