# SPDX-License-Identifier: Apache-2.0
"""The module's way to tell containers apart: in each version of cgroup, in shared pid namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu import paths
from tests.integration.engine import MIB
from tests.integration.probe import Printed, step, steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.conftest import Boot
from tests.vm.harness.bundles import Containers, Edit, Spec
from tests.vm.harness.machine import Machine
from tests.vm.harness.sliced_node import SlicedNode, bind, host_cgroups, privileged
from tests.vm.harness.slices import PROBE

FILL = ("fill=512M:2m", "fill=1M:64k")
LAYOUTS = ("v2", "v1", "hybrid")
SMALL = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "3"}
SMALL_LIMIT = 3021 * MIB
# Leaves every hierarchy that is there and can be left. Arguments: the command then.
LEAVE = """
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
	[ -e "$procs" ] && echo $$ >"$procs"
done 2>/dev/null
cat /proc/self/cgroup
exec "$@"
"""


@pytest.fixture(scope="module")
def nodes(machine: Machine, boot: Boot, module: Path) -> Iterator[Callable[[str], SlicedNode]]:
    """Return nodes by their layout of cgroups. A machine is booted when a test wants its layout."""
    ready: dict[str, SlicedNode] = {}

    def node(layout: str) -> SlicedNode:
        if layout not in ready:
            chosen = machine if layout == "v2" else boot(cgroup=layout)
            made = SlicedNode(chosen, Containers(chosen))
            made.machine.shell('mkdir -p "$1/scratch"', made.containers.rootfs)
            # Privileged containers here are outside of slices.
            made.machine.write_file(paths.EFFECTIVE, '{"allow_privileged": true}')
            ready[layout] = made
        return ready[layout].use("T4")

    yield node
    for made in ready.values():
        made.machine.shell(f"rm -f {paths.EFFECTIVE}")
        made.unload()


def total(outcome: Printed) -> int:
    return sum(one.number("bytes") for one in steps(outcome) if one.name == "fill")


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cgroup_layouts(nodes: Callable[[str], SlicedNode], layout: str) -> None:
    """In each layout a container has its slice, also when it moves itself out of all of its cgroups."""
    node = nodes(layout)
    with node.idle("plain", SMALL), node.idle("mover", SLICE, host_cgroups):
        own = node.exec("plain", ["/cgpu-probe", *FILL])
        moved = node.exec("mover", ["/bin/sh", "-c", LEAVE, "sh", "/cgpu-probe", *FILL])
        group = "/sys/fs/cgroup/plain" if layout == "v2" else "/sys/fs/cgroup/pids/plain"
        joining = f'echo $$ >{group}/cgroup.procs; exec "$1" {" ".join(FILL)}'
        joined = node.machine.shell(joining, f"{node.containers.rootfs}/cgpu-probe", check=False)
    assert (total(own), total(moved), total(joined)) == (SMALL_LIMIT, LIMIT, SMALL_LIMIT), moved.text
    groups = [line.split(":", 2)[2] for line in moved.stdout.splitlines() if line.count(":") == 2]
    assert groups.count("/") >= len(groups) - 1, moved.text
    node.await_empty()


def shown(outcome: Printed) -> int:
    return step(outcome, "info").number("total")


def whole(node: SlicedNode) -> int:
    """Return how much memory the card has for who asks outside of all containers."""
    return shown(node.machine.run([PROBE, "info"]))


def shared_pids(pid: int) -> Edit:
    """Put a container into the pid namespace of a process."""

    def edit(spec: Spec) -> None:
        for namespace in spec["linux"]["namespaces"]:
            if namespace["type"] == "pid":
                namespace["path"] = f"/proc/{pid}/ns/pid"

    return edit


@pytest.mark.enforcement
def test_shared_pid_namespace(nodes: Callable[[str], SlicedNode]) -> None:
    """Containers that share a pid namespace have a slice each, and one without keeps the whole card."""
    node = nodes("v2")
    with node.idle("pause"):
        edit = shared_pids(node.containers.pid("pause"))

        def open_edit(spec: Spec) -> None:
            edit(spec)
            privileged(spec)
            bind(spec, "/dev", "/scratch")

        with node.idle("one", SLICE, edit), node.idle("two", SMALL, edit), node.idle("native", (), open_edit):
            one = node.exec("one", ["/cgpu-probe", *FILL])
            two = node.exec("two", ["/cgpu-probe", *FILL])
            native = node.exec("native", ["/cgpu-probe", "--dev", "/scratch", "info"])
    assert (total(one), total(two)) == (LIMIT, SMALL_LIMIT)
    assert shown(native) == whole(node)
    node.await_empty()
