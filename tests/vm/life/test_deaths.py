# SPDX-License-Identifier: Apache-2.0
"""Death of containers, of the hook and of the runtime at bad moments; no daemon is there to clean up."""

from __future__ import annotations

import json

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.integration.probe import NO_MEMORY, step, steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.harness.counts import count
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.harness.store import ROOT

FILL = ("fill=512M:2m", "fill=1M:64k")
# The hook under strace, which kills it at the nth system call of a kind, until it makes no more.
KILLED_HOOK = """
state=$1 kinds=$2 hook=$3 deaths=0; shift 3
for calls in $kinds; do
	for number in "$@"; do
		lived=0
		printf '%s' "$state" | strace -qq -o /dev/null -e trace=$calls \
			-e inject=$calls:signal=SIGKILL:when=$number \
			$hook prestart --grant 0:67108864:1:0 >/dev/null 2>&1 && lived=1
		# The runtime that sees its hook fail tears the container down and runs poststop.
		printf '%s' "$state" | $hook poststop
		[ $lived = 0 ] || break
		deaths=$((deaths + 1))
	done
	[ $lived = 1 ] || echo "never lived: $calls"
done
echo "deaths $deaths"
"""
# By its form the hook, the system calls, at which of these it is killed, and how many deaths these are at
# least. strace counts each call on its own, and the hook in C makes few of each.
HOOKS = {
    "c": (
        f"{ROOT}/hook/cgpu-hook",
        "read openat newfstatat close access write socket connect exit_group",
        range(1, 20),
        10,
    ),
    "python": (
        f"/usr/bin/python3 -IS {ROOT}/hook/start.py",
        "read,write,openat,close",
        range(1, 400, count(16, 2)),
        3,
    ),
}


def test_container_killed(node: SlicedNode) -> None:
    """After kill -9 of its first process nothing is left of a container, without poststop."""
    for turn in range(count(2, 5)):
        name = f"killed{turn}"
        words = ["/cgpu-probe", *FILL, "fork=3:1M", "hold=600"]
        assert node.containers.detach(name, words, SLICE).returncode == 0
        eventually(lambda name=name: node.used(name) == LIMIT, "it holds all", 60)  # type: ignore[misc]  # mypy cannot infer a default of a lambda
        node.machine.run(["kill", "-9", str(node.containers.pid(name))])
        node.await_empty()
        node.containers.delete(name)
    outcome = node.containers.run(["/cgpu-probe", *FILL], SLICE)
    assert sum(one.number("bytes") for one in steps(outcome)) == LIMIT


def test_dirty_exits(node: SlicedNode) -> None:
    """A process that ends without freeing, is killed, or closes its files gives its memory back at once."""
    with node.idle("host", SLICE) as name:
        outcome = node.exec(
            name,
            *[["/cgpu-probe", "fill=512M:2m", "exit-dirty"]] * 5,
            ["/cgpu-probe", *["fill=512M:2m", "close", "reopen"] * 3],
            ["/cgpu-probe", *["close", "reopen", "info"] * count(500, 4200), "alloc=64K"],
        )
        held = node.machine.start(
            [*node.containers.base, "exec", name, "/cgpu-probe", "alloc=2G", "hold=600"]
        )
        held.await_output("alloc ")
        assert node.used(name) == 2 << 30
        node.exec(name, ["/bin/sh", "-c", "kill -9 $(pidof cgpu-probe)"])
        held.wait()
        eventually(lambda: node.used(name) == 0, "the killed process's charge is gone")
    fills = [(one.number("bytes"), one.number("status")) for one in steps(outcome) if one.name == "fill"]
    assert fills == [(LIMIT // (512 * MIB) * 512 * MIB, NO_MEMORY)] * 8
    assert step(outcome, "alloc").number("status") == 0


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


@pytest.mark.parametrize("form", HOOKS)
def test_hook_killed(node: SlicedNode, form: str) -> None:
    """kill -9 of the hook at many of its system calls: nothing stays registered, and a later try succeeds."""
    group = "/sys/fs/cgroup/step"
    script = f"mkdir -p {group}; echo $$ >{group}/cgroup.procs; echo in its cgroup; exec sleep 3600"
    victim = node.machine.start(["/bin/busybox", "sh", "-euc", script])
    state = {"ociVersion": "1.0.2", "id": "step-1", "pid": victim.pid, "bundle": "/"}
    victim.await_output("in its cgroup")
    hook, kinds, numbers, least = HOOKS[form]
    words = (json.dumps(state), kinds, hook, *map(str, numbers))
    done = node.machine.shell(KILLED_HOOK, *words, timeout=250)
    victim.stop()
    assert "never lived" not in done.stdout
    assert int(done.stdout.rpartition("deaths ")[2]) >= least, "the hook came to its end too early"
    node.await_empty()
