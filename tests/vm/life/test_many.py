# SPDX-License-Identifier: Apache-2.0
"""Many containers at once, and many one after another, under the module."""

from __future__ import annotations

from tests.integration.commands import eventually
from tests.vm.harness.node import TREE
from tests.vm.harness.sliced_node import SlicedNode

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
