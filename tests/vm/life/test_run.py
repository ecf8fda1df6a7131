# SPDX-License-Identifier: Apache-2.0
"""cgpu run with the kernel module: a command in a slice, told by its cgroup in version 2 and 1 of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.probe import NO_MEMORY, step, steps
from tests.vm.conftest import Boot
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, unload_driver, unload_engine
from tests.vm.harness.process import Finished, Process
from tests.vm.harness.slices import GIB, PROBE, SECONDS, await_empty, view
from tests.vm.harness.store import ROOT

LAYOUTS = count(("v2",), ("v2", "v1"))
START = 'cd "$1"; shift; exec "$@"'
GROUPS = "find /sys/fs/cgroup -name 'cgpu-run-*'"
MEMBERS = "find /sys/fs/cgroup -path '*/cgpu-run-*/cgroup.procs' -exec cat {} +"
# $0 is the probe: its view; more than its limit; the rest for a process of another session.
EXACT = '"$0" info fill=64M:2m expect=0x51 alloc=64K:64k; setsid "$0" info fill=64M:2m; exit 7'
# As another user, back to where all others are.
LEAVE = """
exec /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups /bin/busybox sh -c '
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
	case $procs in */cgpu-run-*) continue; esac
	[ -e "$procs" ] && echo $$ >"$procs"
done 2>/dev/null
exec "$0" info' "$0"
"""


def words(machine: Machine, script: str, size: str = "1G") -> list[str]:
    """Return a command line that runs a shell script in a slice, with the probe as its $0."""
    python = str(ROOT / ".venv/bin/python")
    command = ["/bin/busybox", "sh", "-c", script, machine.seen(PROBE)]
    start = ["/bin/busybox", "sh", "-euc", START, "sh", machine.seen(ROOT)]
    return [*start, python, "-m", "cgpu.main", "run", "--mem", size, "--", *command]


def run(machine: Machine, script: str, size: str = "1G") -> Finished:
    """Run it to its end; a failure is the caller's to judge."""
    return machine.run(words(machine, script, size), timeout=machine.scaled(SECONDS), check=False)


def begin(machine: Machine, script: str, size: str = "1G") -> Process:
    """Start it, and come back once it has printed `ready`."""
    process = machine.start(words(machine, script, size), input=None)
    process.await_output("ready\n", machine.scaled(SECONDS))
    return process


def assert_nothing_left(machine: Machine) -> None:
    assert machine.shell(GROUPS).stdout == ""
    assert view(machine).limits == {}
    await_empty(machine)


@pytest.fixture(scope="module")
def nodes(machine: Machine, boot: Boot, module: Path) -> Iterator[Callable[[str], Machine]]:
    """Return machines with driver and engine by their layout of cgroups."""
    machines = {"v2": machine}
    machines |= {layout: boot(cgroup=layout, wait=False) for layout in LAYOUTS[1:]}
    ready: list[Machine] = []

    def node(layout: str) -> Machine:
        chosen = machines[layout].wait_ready()
        if chosen not in ready:
            load_driver(chosen)
            load_engine(chosen)
            ready.append(chosen)
        return chosen

    yield node
    for chosen in ready:
        unload_engine(chosen)
        unload_driver(chosen)


@pytest.fixture
def node(nodes: Callable[[str], Machine]) -> Machine:
    return nodes("v2")


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_slice_is_exact(nodes: Callable[[str], Machine], layout: str) -> None:
    """The command and its children see and get exactly their slice; its status is passed on."""
    node = nodes(layout)
    done = run(node, EXACT)
    assert done.returncode == 7, done.text
    assert [one.number("total") for one in steps(done) if one.name == "info"] == [GIB, GIB], done.text
    assert [one.number("bytes") for one in steps(done) if one.name == "fill"] == [GIB, GIB]
    assert step(done, "alloc").number("status") == NO_MEMORY
    assert_nothing_left(node)


@pytest.mark.enforcement
@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_user_cannot_leave(nodes: Callable[[str], Machine], layout: str) -> None:
    """A command that has given its rights up cannot leave its group."""
    node = nodes(layout)
    done = run(node, LEAVE)
    assert step(done, "info").number("total") == GIB
    assert_nothing_left(node)


@pytest.mark.enforcement
def test_killed_run(node: Machine) -> None:
    """When cgpu run is killed the command keeps its slice, and the module takes that back at its end."""
    process = begin(node, 'echo ready; read -r line; "$0" info >/run/seen; sleep 1000')
    node.shell("kill -KILL $1", str(process.pid))
    process.write("\n")
    seen = "until [ -s /run/seen ]; do sleep 0.05; done; cat /run/seen; rm /run/seen"
    outcome = node.shell(seen, timeout=node.scaled(SECONDS))
    assert list(view(node).limits.values()) == [GIB]
    for pid in node.shell(MEMBERS).stdout.split():
        node.shell("kill -KILL $1", pid, check=False)
    assert step(outcome, "info").number("total") == GIB
    await_empty(node)
    assert run(node, "exit 0").returncode == 0
    assert_nothing_left(node)
