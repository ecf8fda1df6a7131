# SPDX-License-Identifier: Apache-2.0
"""Many containers at once, and many one after another, under the module."""

from __future__ import annotations

import pytest

from cgpu import paths
from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.integration.test_many import FULL
from tests.integration.test_slice import SLICE
from tests.vm.harness.counts import count
from tests.vm.harness.node import TREE
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.install.test_config_apply import apply

# Registers and removes a container again and again, by a process in a cgroup of its own.
REGISTER = """
mkdir -p /sys/fs/cgroup/cycles
sleep 3600 >/dev/null 2>&1 &
echo $! >/sys/fs/cgroup/cycles/cgroup.procs
cycle() {
	number=0
	while [ $number -lt $1 ]; do
		number=$((number + 1))
		echo "create id=cycle$number pid=$2 gpu=0:67108864" >"$3/inst_ctl"
		echo "destroy id=cycle$number" >"$3/inst_ctl"
	done
}
figures() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 2
	echo "figures entries=$(find "$1" | wc -l)" \\
		"$(sed -n 's/^SUnreclaim: *\\([0-9]*\\) kB/kib=\\1/p' /proc/meminfo)"
}
cycle 200 $! "$2"
figures "$2"
cycle $1 $! "$2"
figures "$2"
kill -9 $!
"""
CYCLES = 1000
ALLOWED_KIB = 256  # less than a quarter of a KiB for each cycle


@pytest.mark.timeout(count(400, 4000))
def test_all_at_once(node: SlicedNode) -> None:
    """A dozen containers (as many as a card takes, in the full run) start and stop at once, without loss."""
    # Emulated, so many hooks at once take longer than a node's 10 seconds.
    applied = apply(node.machine, f"max_inst: {FULL}\nhook_timeout: 120\n")
    assert applied.returncode == 0, applied.text
    try:
        start_and_stop(node)
    finally:
        node.machine.shell(f"rm -rf {paths.CONFIG} {paths.RUN}")
        node.unload()
        node.use()


def start_and_stop(node: SlicedNode) -> None:
    """Do so, as often as counts today."""
    env = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_DEV": str(FULL)}
    limit = 15109 // FULL * MIB
    names = [f"one{number}" for number in range(count(12, FULL))]
    for _ in range(count(1, 20)):
        holders = [
            node.containers.start(["/cgpu-probe", "alloc=64M", "hold=600"], env, name=name) for name in names
        ]
        for holder in holders:
            holder.await_output("alloc ", timeout=node.machine.scaled(200))
        view = node.view()
        assert view.limits == {(0, name): limit for name in names}
        assert view.used == {(0, name): 64 * MIB for name in names}
        assert view.cards[0]["used"] == len(names) * 64 * MIB
        node.machine.shell("for group; do kill -9 $(cat /sys/fs/cgroup/$group/cgroup.procs); done", *names)
        node.await_empty()
        for holder in holders:
            assert holder.wait(120).returncode == 137


def test_thousand_registrations(node: SlicedNode) -> None:
    """1,000 registrations and removals leave the kernel's memory and the tree where they were."""
    done = node.machine.shell(REGISTER, str(CYCLES), TREE, timeout=200)
    before, after = (
        dict(word.split("=") for word in line.split()[1:])
        for line in done.stdout.splitlines()
        if line.startswith("figures ")
    )
    assert after["entries"] == before["entries"]
    assert int(after["kib"]) <= int(before["kib"]) + ALLOWED_KIB
    eventually(lambda: node.instances() == [], "no container is left")
