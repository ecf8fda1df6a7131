# SPDX-License-Identifier: Apache-2.0
"""How the module tells containers: in each version of cgroup, in shared pid namespaces, by the old form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
OLD_ID = "0123456789ab"
OLD_LIMIT = 1 << 30
OTHER_OLD_ID = "ba9876543210"  # registered, and never started
LONG_ID = OLD_ID + "c" * 52
# Out of every hierarchy that is there; what cannot be left is left alone. Arguments: what to do then.
LEAVE = """
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
	case $procs in /sys/fs/cgroup/0*|/sys/fs/cgroup/old/*) continue; esac
	[ -e "$procs" ] && echo $$ >"$procs"
done 2>/dev/null
cat /proc/self/cgroup
exec "$@"
"""
MAKE_NODES = """
mount -t tmpfs none /scratch
for name in nvidiactl:255 nvidia0:0 nvidia-modeset:254; do
	mknod "/scratch/${name%:*}" c 195 "${name#*:}"
done
"""


# Into a group below $1 that is named $2 and made by the user $3, in a group of that user's. Then the command.
JOIN = """
directory=$1 name=$2 user=$3; shift 3
if [ $user != 0 ]; then
	directory=$directory/user$user
	mkdir $directory; chown $user $directory
fi
/usr/bin/setpriv --reuid $user --clear-groups mkdir $directory/$name
echo $$ >$directory/$name/cgroup.procs
exec "$@"
"""
REMOVE = 'for group; do [ ! -d "$group" ] || rmdir "$group"; done'


@pytest.fixture(scope="module")
def nodes(machine: Machine, boot: Boot, module: Path) -> Iterator[Callable[[str], SlicedNode]]:
    """Return nodes by their layout of cgroups. A machine is booted when a test wants its layout."""
    ready: dict[str, SlicedNode] = {}

    def node(layout: str) -> SlicedNode:
        if layout not in ready:
            chosen = machine if layout == "v2" else boot(cgroup=layout)
            made = SlicedNode(chosen, Containers(chosen))
            made.machine.shell('mkdir -p "$1/scratch"', made.containers.rootfs)
            # Privileged containers here are outside of slices, but for those that are registered by hand.
            made.machine.write_file(paths.EFFECTIVE, '{"allow_privileged": true}')
            ready[layout] = made
        return ready[layout].use("T4", default_memsize=OLD_LIMIT)

    yield node
    for made in ready.values():
        made.machine.shell(f"rm -f {paths.EFFECTIVE}")
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
        moved = node.exec("mover", ["/bin/sh", "-c", LEAVE, "sh", "/cgpu-probe", *FILL])
        group = "/sys/fs/cgroup/plain" if layout == "v2" else "/sys/fs/cgroup/pids/plain"
        joining = f'echo $$ >{group}/cgroup.procs; exec "$1" {" ".join(FILL)}'
        joined = node.machine.shell(joining, f"{node.containers.rootfs}/cgpu-probe", check=False)
    assert (total(own), total(moved), total(joined)) == (SMALL_LIMIT, LIMIT, SMALL_LIMIT), moved.text
    groups = [line.split(":", 2)[2] for line in moved.stdout.splitlines() if line.count(":") == 2]
    assert groups.count("/") >= len(groups) - 1, moved.text
    node.await_empty()


INFO = ("/cgpu-probe", "--dev", "/scratch", "info")


def shown(outcome: Printed) -> int:
    """Return how much memory the card has for who asks."""
    return step(outcome, "info").number("total")


def whole(node: SlicedNode) -> int:
    """Return how much memory the card has for who asks outside of all containers."""
    return shown(node.machine.run([PROBE, "info"]))


@contextmanager
def registered(node: SlicedNode, container_id: str) -> Iterator[None]:
    """Have a container registered by the old form."""
    assert node.write("inst_ctl", f"0{container_id}").returncode == 0
    try:
        yield
    finally:
        assert node.write("inst_ctl", f"-{container_id}").returncode == 0


def join(node: SlicedNode, layout: str, name: str, user: int = 0) -> int:
    """Return how much memory the card has for a process in a group of this name, made by this user."""
    directory = "/sys/fs/cgroup" if layout == "v2" else "/sys/fs/cgroup/pids"
    program = [f"{node.containers.rootfs}/cgpu-probe", "info"]
    outcome = node.machine.shell(JOIN, directory, name, str(user), *program, check=False)
    around = f"{directory}/user{user}"
    node.machine.shell(REMOVE, f"{directory}/{name}", f"{around}/{name}", around)
    return shown(outcome)


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_old_form(nodes: Callable[[str], SlicedNode], layout: str) -> None:
    """A container registered by its id alone is known by its cgroup's name, from its first step on."""
    node = nodes(layout)
    with registered(node, OTHER_OLD_ID), node.idle(OLD_ID, (), host_cgroups):
        node.exec(OLD_ID, ["/bin/sh", "-c", MAKE_NODES]).check()
        before = node.exec(OLD_ID, INFO)
        with registered(node, OLD_ID):
            # The display's node first: nothing has told the module of this container yet.
            display = node.exec(OLD_ID, ["/bin/sh", "-c", "(: </scratch/nvidia-modeset) 2>&1; true"])
            outcome = node.exec(OLD_ID, [*INFO, *FILL])
            moved = node.exec(OLD_ID, ["/bin/sh", "-c", LEAVE, "sh", *INFO])
            view = node.view()
            second = join(node, layout, f"docker-{LONG_ID}.scope")
    assert shown(before) == whole(node) > OLD_LIMIT
    assert (shown(outcome), shown(moved), second) == (OLD_LIMIT, OLD_LIMIT, OLD_LIMIT)
    assert total(outcome) == OLD_LIMIT
    assert view.used[0, OLD_ID] == 0
    assert "Operation not permitted" in display.text
    node.await_empty()


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_old_form_is_not_taken(nodes: Callable[[str], SlicedNode], layout: str) -> None:
    """A group with another name, or made where a user may make groups, is not the container's."""
    node = nodes(layout)
    names = [f"x-{OLD_ID}", f"{OLD_ID}-x", f"docker-{OLD_ID}c.scope", f"libpod-conmon-{OLD_ID}.scope"]
    with registered(node, OLD_ID):
        strange = [join(node, layout, name) for name in names]
        users = join(node, layout, OLD_ID, user=1000)
        own = [join(node, layout, name) for name in (f"crio-{OLD_ID}.scope", f"libpod-{LONG_ID}", LONG_ID)]
    card = whole(node)
    assert card > 2 * LIMIT
    assert (strange, users, own) == ([card] * 4, card, [OLD_LIMIT] * 3)
    node.await_empty()


@pytest.mark.enforcement
def test_old_form_again(nodes: Callable[[str], SlicedNode]) -> None:
    """Who is left in a container of the old form is refused, and belongs to the next one of that name."""
    node = nodes("v2")
    with node.idle(OLD_ID, (), privileged):
        node.exec(OLD_ID, ["/bin/sh", "-c", MAKE_NODES]).check()
        with registered(node, OLD_ID):
            first = node.exec(OLD_ID, INFO)
        left = node.exec(OLD_ID, INFO)
        with registered(node, OLD_ID):
            again = node.exec(OLD_ID, INFO)
    assert (shown(first), shown(again)) == (OLD_LIMIT, OLD_LIMIT)
    assert left.returncode != 0, left.text
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
    assert shown(native) == whole(node)
    node.await_empty()
