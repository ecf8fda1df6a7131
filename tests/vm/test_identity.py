# SPDX-License-Identifier: Apache-2.0
"""How the module tells containers: in each version of cgroup, in shared pid namespaces, by the old form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.engine import MIB
from tests.integration.probe import Printed, step, steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.bundles import Containers, Edit, Spec
from tests.vm.conftest import Boot
from tests.vm.sliced_node import SlicedNode, bind, host_cgroups, privileged

FILL = ("fill=512M:2m", "fill=1M:64k")
LAYOUTS = ("v2", "v1", "hybrid")
SMALL = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "3"}
SMALL_LIMIT = 3021 * MIB
OLD_ID = "0123456789ab"
OLD_LIMIT = 1 << 30
# Out of every hierarchy that is there; what cannot be left is left alone.
LEAVE = """
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
	case $procs in /sys/fs/cgroup/0*|/sys/fs/cgroup/old/*) continue; esac
	[ -e "$procs" ] && echo $$ >"$procs"
done 2>/dev/null
cat /proc/self/cgroup
exec /cgpu-probe fill=512M:2m fill=1M:64k
"""
MAKE_NODES = """
mount -t tmpfs none /scratch
for name in nvidiactl:255 nvidia0:0 nvidia-modeset:254; do
	mknod "/scratch/${name%:*}" c 195 "${name#*:}"
done
"""


@pytest.fixture(scope="module")
def nodes(boot: Boot, standin: Path, module: Path) -> Iterator[Callable[[str], SlicedNode]]:
    """Return nodes by their layout of cgroups: all boot at once."""
    machines = {layout: boot(cgroup=layout, wait=False, memory=1024) for layout in LAYOUTS}
    ready: dict[str, SlicedNode] = {}

    def node(layout: str) -> SlicedNode:
        if layout not in ready:
            machine = machines[layout].wait_ready()
            made = SlicedNode(machine, Containers(machine))
            made.machine.shell('mkdir -p "$1/scratch"', made.containers.rootfs)
            ready[layout] = made
        return ready[layout].use("T4", default_memsize=OLD_LIMIT)

    yield node
    for made in ready.values():
        made.unload()


def total(outcome: Printed) -> int:
    """Return what one run of FILL got."""
    return sum(one.number("bytes") for one in steps(outcome) if one.name == "fill")


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cgroup_layouts(nodes: Callable[[str], SlicedNode], layout: str) -> None:
    """In each layout a container has its slice, also when it moves itself out of all of its cgroups."""
    node = nodes(layout)
    with node.idle("plain", SMALL), node.idle("mover", SLICE, host_cgroups):
        own = node.exec("plain", ["/cgpu-probe", *FILL])
        moved = node.exec("mover", ["/bin/sh", "-c", LEAVE])
        group = "/sys/fs/cgroup/plain" if layout == "v2" else "/sys/fs/cgroup/pids/plain"
        joining = f'echo $$ >{group}/cgroup.procs; exec "$1" {" ".join(FILL)}'
        joined = node.machine.shell(joining, f"{node.containers.rootfs}/cgpu-probe", check=False)
    assert (total(own), total(moved), total(joined)) == (SMALL_LIMIT, LIMIT, SMALL_LIMIT), moved.text
    groups = [line.split(":", 2)[2] for line in moved.stdout.splitlines() if line.count(":") == 2]
    assert groups.count("/") >= len(groups) - 1, moved.text
    node.await_empty()


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_old_form(nodes: Callable[[str], SlicedNode], layout: str) -> None:
    """A container registered by its id alone is known by its cgroup's name, from its first step on."""
    node = nodes(layout)
    assert node.write("inst_ctl", f"0{OLD_ID}").returncode == 0
    try:
        with node.idle(OLD_ID, (), privileged):
            node.exec(OLD_ID, ["/bin/sh", "-c", MAKE_NODES]).check()
            # The display's node first: nothing has told the module of this container yet.
            display = node.exec(OLD_ID, ["/bin/sh", "-c", "(: </scratch/nvidia-modeset) 2>&1; true"])
            outcome = node.exec(OLD_ID, ["/cgpu-probe", "--dev", "/scratch", "info", *FILL])
            view = node.view()
    finally:
        assert node.write("inst_ctl", f"-{OLD_ID}").returncode == 0
    assert step(outcome, "info").number("total") == OLD_LIMIT
    assert total(outcome) == OLD_LIMIT
    assert view.used[0, OLD_ID] == 0
    assert "Operation not permitted" in display.text
    node.await_empty()


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
    assert step(native, "info").number("total") == 15109 * MIB
    node.await_empty()
