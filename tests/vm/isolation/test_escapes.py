# SPDX-License-Identifier: Apache-2.0
"""A process cannot leave its container as the module sees it, by any change of itself and its names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from tests.attacks.build import uvm_probe
from tests.daemon.harness import built
from tests.integration.engine import MIB
from tests.integration.probe import Printed, steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.harness.bundles import Spec
from tests.vm.harness.node import TREE, read, real_driver
from tests.vm.harness.sliced_node import SlicedNode, bind, host_cgroups, privileged
from tests.vm.programs import build

FILL = ("fill=512M:2m", "fill=1M:64k", "fill=64K:64k")
SMALL = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "3"}
OTHER = {**SMALL, "NVIDIA_VISIBLE_DEVICES": "1"}
SHARED = "/run/cgpu-vm/shared"
PROGRAMS = ("escape", "uring", "hand")
EPERM = 1
REFUSED = 0x1B  # NV_ERR_INSUFFICIENT_PERMISSIONS
# Arguments of `escape`: namespaces and groups that it enters.
WAYS: list[Sequence[str]] = [
    ["pid"],
    ["mount", "pid", "fork"],
    ["user", "pid", "mount", "cgroup", "uts", "ipc", "net"],
    ["user", "user", "pid", "pid", "pid"],
    ["time", "thread"],
    ["join=/cgroup/sub"],
    ["cgroup", "join=/cgroup/sub/deeper", "pid"],
    ["into=/cgroup/sub"],
    ["join=/cgroup/other", "cgroup", "user", "pid"],
]


def privileged_with_shared(spec: Spec) -> None:
    """Make a container privileged, and give it a directory that others have too."""
    privileged(spec)
    bind(spec, SHARED, "/shared")


def install(node: SlicedNode) -> None:
    """Put the programs into the containers' root file system."""
    node.machine.shell(f"mkdir -p {SHARED}")
    for name in PROGRAMS:
        node.install(build(name), name)
    node.install(built("passing"), "passing")
    node.install(uvm_probe(), "uvm-probe")
    node.machine.shell('mkdir -p "$1/shared" "$1/cgroup" "$1/scratch"', node.containers.rootfs)


@pytest.fixture(scope="module")
def sliced(loaded_node: SlicedNode) -> Iterator[SlicedNode]:
    """Return a node with two T4s: `a` has 6043 MiB of the first, `b` 3021 MiB of it, `c` of the second.

    With NVIDIA's driver there is one card, and no `c`.
    """
    install(loaded_node.use("T4" if real_driver() else "T4:2"))
    with ExitStack() as running:
        running.enter_context(loaded_node.idle("a", SLICE, privileged_with_shared))
        running.enter_context(loaded_node.idle("b", SMALL, privileged_with_shared))
        if not real_driver():
            running.enter_context(loaded_node.idle("c", OTHER, privileged_with_shared))
        loaded_node.exec("a", ["/bin/sh", "-c", MOUNTS]).check()
        yield loaded_node


MOUNTS = """
mount -t tmpfs none /scratch
mount -t cgroup2 none /cgroup
mkdir -p /cgroup/sub/deeper /cgroup/other
mknod /scratch/first c 195 0
mkdir /scratch/dev
for name in nvidiactl:255 nvidia0:0 nvidia1:1 nvidia-modeset:254; do
	mknod "/scratch/dev/${name%:*}" c 195 "${name#*:}"
done
mknod /scratch/card c 226 0
mknod /scratch/render c 226 128
"""


@pytest.fixture(autouse=True)
def nothing_over(sliced: SlicedNode) -> Iterator[None]:
    """Fail when, after a test, anything is still held."""
    yield
    view = sliced.view()
    assert not any(card["used"] for card in view.cards)
    assert set(view.used.values()) == {0}


def sums(outcome: Printed) -> list[int]:
    fills = [one.number("bytes") for one in steps(outcome) if one.name == "fill"]
    return [sum(fills[at : at + len(FILL)]) for at in range(0, len(fills), len(FILL))]


def test_settings_of_the_driver_are_read_only(sliced: SlicedNode) -> None:
    """Root of a slice cannot write the files by which NVIDIA's driver takes settings for the whole node."""
    files = "registry gpus/*/registry" if real_driver() else "version"
    script = f"cd /proc/driver/nvidia && for file in {files}; do (: >> $file) && echo open: $file; done; true"
    outcome = sliced.containers.exec("a", ["/bin/sh", "-c", script])
    assert "Read-only file system" in outcome.text, outcome.text
    assert "open:" not in outcome.text, outcome.text


@pytest.mark.enforcement
def test_namespaces_and_cgroups(sliced: SlicedNode) -> None:
    """Own and nested namespaces of every kind, and moves between the cgroups in reach, change nothing."""
    outcome = sliced.exec("a", *(["/escape", *way, "--", "/cgpu-probe", *FILL] for way in WAYS))
    assert "not open" not in outcome.text
    assert sums(outcome) == [LIMIT] * len(WAYS), outcome.text
    assert sliced.view().cards[0]["peak"] <= LIMIT


@pytest.mark.fake_driver("two cards")
@pytest.mark.enforcement
def test_nodes_of_its_own(sliced: SlicedNode) -> None:
    """By nodes that a container has made itself it gets its slice of its GPU, and nothing of another one."""
    outcome = sliced.exec(
        "a",
        ["/cgpu-probe", "--dev", "/scratch/dev", *FILL],
        ["/cgpu-probe", "--dev", "/scratch/dev", "gpu=1", "alloc=1M"],
        ["/escape", "user", "mount", "--", "/cgpu-probe", "--dev", "/scratch/dev", "gpu=1", "alloc=1M"],
        ["/uring", "/scratch/dev/nvidia1"],
        ["/uring", "/scratch/dev/nvidia-modeset"],
        ["/uring", "/scratch/dev/nvidia0"],
    )
    assert sums(outcome) == [LIMIT], outcome.text
    assert [one.number("errno") for one in steps(outcome) if one.name == "alloc"] == [EPERM] * 2
    opened = [one.number("result") for one in steps(outcome) if one.name == "opened"]
    assert opened == [-EPERM, -EPERM, 0]
    assert (sliced.view().cards[0]["peak"], sliced.view().cards[1]["peak"]) == (LIMIT, 0)


@pytest.mark.enforcement
def test_other_ways_to_the_card(sliced: SlicedNode) -> None:
    """The display's nodes cannot be opened, and memory of a dma-buf stays charged."""
    script = """
for node in /scratch/dev/nvidia-modeset /scratch/card /scratch/render; do
	(: <"$node") 2>&1 || true
done
"""
    nodes = sliced.exec("a", ["/bin/sh", "-c", script])
    assert nodes.text.count("Operation not permitted") == 3, nodes.text
    kept = ["alloc=4G", "dmabuf", "rm-free", "expect=0x51", "alloc=4G", "dmabuf-close", "alloc=4G"]
    sliced.exec("a", ["/uvm-probe", *kept]).check()


@contextmanager
def giving(node: SlicedNode, name: str, *command: str) -> Iterator[None]:
    """Have a program in a container that hands something out, and waits for the end of its input."""
    giver = node.machine.start([*node.containers.base, "exec", name, *command], input=None)
    giver.await_output("ready")
    try:
        yield
    finally:
        giver.close_input()
        giver.stop()
        node.exec(
            name, ["/bin/sh", "-c", f"kill -9 $(pidof {command[0].removeprefix('/')}) 2>/dev/null; true"]
        )


@pytest.mark.enforcement
def test_descriptor_of_another_container(sliced: SlicedNode) -> None:
    """A container that was handed nvidiactl of another uses nothing of its client, only its own slice."""
    with giving(sliced, "a", "/passing", "--dev", "/dev", "give", "/shared/ctl", "6000"):
        taker = sliced.containers.call("exec", "b", "/passing", "--dev", "/dev", "take", "/shared/ctl")
        view = sliced.view()
    refused = " ".join(f"{what}={REFUSED:#x}" for what in ("device", "alloc", "dup", "own_dup", "free"))
    assert f"taken {refused} mine=0\n" in taker.text
    assert (view.cards[0]["used"], view.used[0, "a"], view.used[0, "b"]) == (6000 * MIB, 6000 * MIB, 0)


@pytest.mark.fake_driver("two cards")
@pytest.mark.enforcement
def test_gpu_of_another_container(sliced: SlicedNode) -> None:
    """A container that was handed an open GPU of another cannot use that GPU."""
    with giving(sliced, "c", "/hand", "give", "/shared/gpu", "/dev/nvidia1"):
        taker = sliced.containers.call("exec", "b", "/hand", "take", "/shared/gpu", "1")
        assert sliced.view().cards[1]["used"] == 0
    taken = steps(taker)[0]
    assert taken.number("register") != 0
    assert taken.number("device") != 0
    assert taken.number("memory") != 0


@pytest.mark.enforcement
def test_uvm_file_of_another_container(sliced: SlicedNode) -> None:
    """Managed memory is charged on its owner's cards: no other has it go to its own card, nor maps it."""
    taker, card = ("b", 0) if real_driver() else ("c", 1)
    uuid = read(sliced.machine, f"{card}/uuid").strip()
    with giving(sliced, "a", "/hand", "uvm", "/shared/uvm"):
        taken = steps(sliced.containers.call("exec", taker, "/hand", "card", "/shared/uvm", uuid))[0]
    assert [taken.number("register"), taken.number("map")] == [EPERM, EPERM]


@pytest.mark.fake_driver("two cards")
def test_tree_from_inside(sliced: SlicedNode) -> None:
    """A privileged container with a /proc of its own can neither read nor write the tree."""
    script = f"""
mkdir /scratch/proc && mount -t proc none /scratch/proc
for proc in /proc /scratch/proc; do
	cat $proc/{TREE.removeprefix("/proc/")}/version 2>&1 || true
	(echo 'destroy id=a' >$proc/{TREE.removeprefix("/proc/")}/inst_ctl) 2>&1 || true
	(echo 3 >$proc/{TREE.removeprefix("/proc/")}/0/policy) 2>&1 || true
done
"""
    for way in ([], ["user", "pid", "mount"], ["join=/cgroup/sub"]):
        outcome = sliced.exec(
            "a", ["/escape", *way, "fork", "--", "/bin/sh", "-c", script.replace("mkdir", "mkdir -p")]
        )
        assert outcome.text.count("Permission denied") >= 3, outcome.text
    assert (sliced.instances(0), sliced.instances(1)) == (["a", "b"], ["c"])


@pytest.mark.enforcement
def test_tasks_that_join_later(sliced: SlicedNode) -> None:
    """A process of the host that joins only the cgroup or the pid namespace of a container is in it."""
    pid = sliced.containers.pid("a")
    probe = f"{sliced.containers.rootfs}/cgpu-probe"
    by_cgroup = f'echo $$ >/sys/fs/cgroup/a/cgroup.procs; exec "$1" {" ".join(FILL)}'
    outcomes = [
        sliced.machine.shell(by_cgroup, probe, check=False),
        sliced.machine.run(["nsenter", "--pid", "-t", str(pid), probe, *FILL], check=False),
    ]
    assert [sums(outcome) for outcome in outcomes] == [[LIMIT], [LIMIT]]
    assert sliced.view().cards[0]["peak"] <= LIMIT


@pytest.mark.enforcement
def test_root_cgroup(sliced: SlicedNode) -> None:
    """A container that moves itself to the host's root cgroup is still known by its pid namespace."""
    small = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "2"}
    ways = [
        ["join=/sys/fs/cgroup"],
        ["into=/sys/fs/cgroup"],
        ["join=/sys/fs/cgroup/b"],
        ["join=/sys/fs/cgroup", "user", "pid", "mount"],
    ]
    with sliced.idle("mover", small, host_cgroups):
        outcome = sliced.exec(
            "mover",
            *(["/escape", *way, "--", "/cgpu-probe", *FILL] for way in ways),
            ["/escape", "join=/sys/fs/cgroup", "--", "/bin/cat", "/proc/self/cgroup"],
        )
    assert "0::/\n" in outcome.stdout
    assert sums(outcome) == [15109 * 2 // 15 * MIB] * len(ways), outcome.text
