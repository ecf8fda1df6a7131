# SPDX-License-Identifier: Apache-2.0
"""Containers without a runtime: a cgroup and a registered process are all that the engine looks at.

They start in a fraction of the time, so that a test can have many of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.commands import eventually
from tests.vm.harness import cross
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import TREE, load_driver, load_engine, unload_driver, unload_engine
from tests.vm.harness.process import Finished, Process
from tests.vm.harness.sliced_node import POOLED, View, look

PROBE = cross.BUILD / "cgpu-probe"
GIB = 1 << 30
SECONDS = 30.0

START = f"""
mkdir -p "/sys/fs/cgroup/$1"
/bin/busybox sleep 100000 </dev/null >/dev/null 2>&1 &
echo $! >"/sys/fs/cgroup/$1/cgroup.procs"
echo "create id=$1 pid=$! $2" >{TREE}/inst_ctl
"""
ENTER = 'echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"; shift; exec "$@"'
END = """
[ -d "/sys/fs/cgroup/$1" ] || exit 0
echo 1 >"/sys/fs/cgroup/$1/cgroup.kill"
until rmdir "/sys/fs/cgroup/$1" 2>/dev/null; do /bin/busybox sleep 0.05; done
"""
FREEZE = """
echo "$2" >"/sys/fs/cgroup/$1/cgroup.freeze"
until grep -q "^frozen $2" "/sys/fs/cgroup/$1/cgroup.events"; do /bin/busybox sleep 0.02; done
"""
# The kernel's code changes with the first cgroup, and some time after the last: where it must not, one stays.
KEPT = "/sys/fs/cgroup/kept"
# Remove the groups of all containers, nested groups first.
CLEAR = f"""
for group in $(find /sys/fs/cgroup -mindepth 1 -depth -type d ! -path {KEPT}); do
	echo 1 >"$group/cgroup.kill"
	until rmdir "$group" 2>/dev/null; do /bin/busybox sleep 0.05; done
done
"""
PROCESSES = """
for group in $(find /sys/fs/cgroup -mindepth 1 -depth -type d); do
	for pid in $(cat "$group/cgroup.procs"); do
		echo "$group $pid: $(tr '\\0' ' ' </proc/$pid/cmdline); $(grep State /proc/$pid/status)"
		cat "/proc/$pid/stack" 2>/dev/null || true
	done
done
"""
COUNTS = "cat /sys/module/cgpu_core_*/refcnt"


def view(machine: Machine, *, agreeing: bool = True) -> View:
    return look(machine, agreeing=agreeing)


def holds_core(machine: Machine) -> bool:
    """Say whether a core cannot be unloaded now."""
    return any(count != "0" for count in machine.shell(COUNTS).stdout.split())


def left(machine: Machine) -> str:
    """Return what the card and the tree have, and which processes there are in the cgroups of containers."""
    return f"{view(machine)}\n{machine.shell(PROCESSES).stdout}"


def await_empty(machine: Machine, pooled: int = POOLED) -> None:
    """Wait until nothing is left of any container but so many bytes, and nothing keeps the engine."""
    seconds = machine.scaled(SECONDS)
    eventually(
        lambda: view(machine).empty_but(pooled),
        "nothing of any container is left",
        seconds,
        lambda: left(machine),
    )
    eventually(lambda: not holds_core(machine), "the engine can be unloaded", seconds)


def clear(machine: Machine, pooled: int = POOLED) -> None:
    machine.shell(CLEAR, timeout=SECONDS)
    await_empty(machine, pooled)


def set_knob(machine: Machine, name: str, value: object) -> None:
    machine.shell('echo "$2" >/sys/module/nvidia/parameters/$1', name, str(value))


@dataclass(frozen=True)
class Slice:
    """One such container."""

    machine: Machine
    name: str

    def argv(self, *command: str | Path) -> list[str]:
        """Return a command as a task of the container; a Path lies on the host."""
        words = [self.machine.seen(word) if isinstance(word, Path) else word for word in command]
        return ["/bin/busybox", "sh", "-euc", ENTER, "sh", self.name, *words]

    def run(self, *command: str | Path, timeout: float = 60) -> Finished:
        return self.machine.run(self.argv(*command), timeout=timeout, check=False)

    def start(self, *command: str | Path) -> Process:
        return self.machine.start(self.argv(*command), input=None)

    def probe(self, *words: str) -> Finished:
        return self.run(PROBE, *words)

    def hold(self, *words: str) -> Process:
        """Run the probe in it, and have it keep what it got."""
        held = self.start(PROBE, *words, "count", "hold")
        held.await_output("count ", timeout=self.machine.scaled(SECONDS))
        return held

    def registered(self) -> bool:
        return any(name == self.name for _, name in view(self.machine).limits)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.machine.shell(FREEZE, self.name, "1", timeout=SECONDS)
        try:
            yield
        finally:
            self.machine.shell(FREEZE, self.name, "0", timeout=SECONDS)

    def end(self) -> None:
        """End its processes, and take its cgroup away, without a word to the engine."""
        self.machine.shell(END, self.name, timeout=SECONDS)

    def await_gone(self) -> None:
        """Wait until the engine has seen that it has ended."""
        eventually(lambda: not self.registered(), f"{self.name} is still there", self.machine.scaled(SECONDS))


def create(machine: Machine, name: str, *gpus: str) -> tuple[Slice, Finished]:
    """Try to make a container; each of `gpus` is INDEX:BYTES."""
    done = machine.shell(START, name, " ".join(f"gpu={gpu}" for gpu in gpus or (f"0:{GIB}",)), check=False)
    return Slice(machine, name), done


def slice_of(machine: Machine, name: str, *gpus: str) -> Slice:
    made, done = create(machine, name, *gpus)
    done.check()
    return made


@dataclass
class Stage:
    """A machine and the slices of a test on it."""

    machine: Machine
    slices: list[Slice] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    pooled: int = POOLED  # bytes that the driver may keep in its pools in the end

    def slice(self, name: str, size: int) -> Slice:
        made = slice_of(self.machine, name, f"0:{size}")
        self.slices.append(made)
        return made

    def start(self, container: Slice, program: Path, *words: object) -> Process:
        process = container.start(program, *(str(word) for word in words))
        self.processes.append(process)
        return process

    def view(self, *, agreeing: bool = True) -> View:
        return view(self.machine, agreeing=agreeing)

    def clear(self) -> None:
        for process in self.processes:
            if process.running:
                process.stop()
        self.processes.clear()
        self.slices.clear()
        clear(self.machine, self.pooled)


@contextmanager
def stage(machine: Machine, **parameters: object) -> Iterator[Stage]:
    """Load the driver, with these parameters, and the engine; unload both at the end."""
    with machine.one_cpu():
        load_driver(machine, **parameters)  # type: ignore[arg-type]  # a module's, by name
        load_engine(machine)
    made = Stage(machine)
    try:
        yield made
    finally:
        made.clear()
        with machine.one_cpu():
            unload_engine(machine)
            unload_driver(machine)


def figures(process: Process, timeout: float) -> dict[str, int]:
    """Wait until a program rests; return the numbers of the line that says so."""
    process.await_output("resting", timeout=timeout)
    process.await_output("\n", timeout=timeout)
    line = next(line for line in process.finished().stdout.splitlines() if line.startswith("resting"))
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
