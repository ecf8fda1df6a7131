# SPDX-License-Identifier: Apache-2.0
"""Cost of turns of GPU time for each engine, counted in instructions: 25 containers at work, slices of 1 ms.

Boots a virtual machine in which each instruction takes a nanosecond (QEMU -icount shift=0), so that the time
a thread has run is what it has executed: other load, and what a hypervisor takes to put a processor to sleep,
are not in it. A processor with one instruction in a nanosecond is a slow one (3 GHz, one in three cycles).

The driver is the fake one of the tests. The fake driver's work to stop channels is not the engine's: with
"free" stops it answers at once. "own" is the thread's with these, less two calls of the driver in each turn,
at the price that a program beside it pays for calls which do nothing; the module's are calls of functions,
and its own. With "simulated" stops the thread also waits for the card, and is woken more often. Under
policies 1 and 5 the daemon's only reads samples once in a second, for which the simulated card works out what
it did meanwhile.

Needs root and what `scripts/bootstrap test` installs. Exits with 1 when "own" is 1 % of a processor or more.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import must
from tests.vm.harness.kernels import Kernel, choose_kernel
from tests.vm.harness.machine import QEMU, Machine
from tests.vm.harness.node import (
    TREE,
    build_engine,
    build_fake_driver,
    load_driver,
    load_engine,
    unload_engine,
)
from tests.vm.harness.slices import PROBE, await_empty, set_knob, slice_of
from tests.vm.harness.store import ROOT

CONTAINERS = 25
SLICE_US = 1000
LIMIT = 512 << 20
PREEMPTIVE, WEIGHT, NATIVE = 1, 2, 5
BOUND = 1.0  # percent of a processor
# Kernels that can be interrupted, in queues that outlast the measurement: the containers need no processor.
WORK = ("group", "submit=1024:1s", "hold")
MODULE, DAEMON = "cgpu_km", "cgpud"
THREADS = ("cgpu_turns", "cgpud-turns")

# The shell itself reads all three figures. From one program to the next the guest's clock would go on, on a
# busy host by more than a second, and the figures would not be of the same moment.
LOOK = f"""
for name in /proc/[0-9]*/task/*/comm; do
	read -r comm 2>/dev/null <$name || continue
	case $comm in {"|".join(THREADS)}) task=${{name%/comm}} ;; esac
done
look() {{
	read -r run rest <$task/schedstat
	while read -r key wakes; do
		case $key in voluntary_ctxt_switches:) break ;; esac
	done <$task/status
	while read -r key rest; do
		case $key in now) break ;; esac
	done </proc/timer_list
	echo "run $run wakes $wakes $key $rest"
}}
sleep 0.2; look; sleep "$1"; look
"""
FIGURES = re.compile(r"run (\d+) wakes (\d+) now at (\d+) nsecs")
RUN, DAEMON_TREE = "/run/cgpud", "/run/tree"
START_DAEMON = f"""
modprobe fuse
printf 'max_inst: %s\\nslice_us: %s\\n' {CONTAINERS} {SLICE_US} >/run/cgpud.yaml
cd "$2"
exec "$1" -m cgpu.kmod.daemon.main --run {RUN} --tree {DAEMON_TREE} --config /run/cgpud.yaml
"""


@dataclass(frozen=True)
class Cost:
    """Cost for the engine's thread."""

    seconds: float
    wakes: int
    instructions: int

    @property
    def rate(self) -> float:
        """Return how often it is woken in a second."""
        return self.wakes / self.seconds

    @property
    def per_wake(self) -> float:
        """Return instructions of the thread."""
        return self.instructions / max(self.wakes, 1)

    @property
    def percent(self) -> float:
        """Return what the thread takes of a processor with an instruction in each nanosecond."""
        return self.instructions / self.seconds / 1e7


def cost(machine: Machine, seconds: float) -> Cost:
    """Measure for so long, in the guest's time."""
    text = machine.shell(LOOK, str(seconds)).stdout
    found = [[int(word) for word in one] for one in FIGURES.findall(text)]
    assert len(found) == 2, text
    ran, wakes, now = (after - before for before, after in zip(*found, strict=True))
    return Cost(now / 1e9, wakes, ran)


# --- the two engines, each with its containers at work ---


@contextmanager
def module(machine: Machine) -> Iterator[str]:
    """Have the kernel module; yields its tree."""
    load_engine(machine, slice_us=SLICE_US, max_inst=CONTAINERS)
    tenants = [slice_of(machine, f"busy{n}", f"0:{LIMIT}") for n in range(CONTAINERS)]
    for tenant in tenants:
        tenant.hold(*WORK[:-1])
    yield TREE
    for tenant in tenants:
        tenant.end()
    await_empty(machine)
    unload_engine(machine)


@contextmanager
def daemon(machine: Machine) -> Iterator[str]:
    """Have the daemon on the same driver; yields its tree. The machine is not used further."""
    machine.shell(START_DAEMON, sys.executable, str(ROOT), timeout=200)
    launcher = machine.seen(ROOT / "tests" / "daemon" / "sliced.py")
    started = []
    for n in range(CONTAINERS):
        name = f"{n:012x}" + "5" * 52
        command = ["/usr/bin/python3", "-I", launcher, f"{RUN}/seccomp.sock", name]
        process = machine.start(
            [*command, machine.seen(PROBE), "--dev", "/dev", *WORK], input=None, env={"SLICED_WAIT": "1"}
        )
        line = f"create id={name} pid={process.pid} gpu=0:{LIMIT}:1"
        machine.shell(f'echo "$1" >{DAEMON_TREE}/inst_ctl', line)
        process.write("\n")
        started.append(process)
    for process in started:
        process.await_output("hold", 60)
    yield DAEMON_TREE


# --- measuring ---


@dataclass(frozen=True)
class Calls:
    """A program's cost of a sleep, and of a call of the driver that does nothing."""

    call: int
    sleep: int


def calls(machine: Machine, paced: Path, seconds: float) -> Calls:
    """Measure them."""
    took = machine.run([machine.seen(paced), "/dev/nvidiactl", str(seconds)]).stdout.split()
    return Calls(int(took[0]), int(took[1]))


@dataclass(frozen=True)
class Subject:
    """An engine with its containers at work, and its cost of the driver's calls in a turn."""

    machine: Machine
    engine: str
    tree: str
    driver: int = 0


@dataclass(frozen=True)
class Row:
    """One variant, measured several times."""

    subject: Subject
    free: bool
    policy: int
    costs: list[Cost]

    def median(self, name: str) -> float:
        """Return the median of one of a cost's figures."""
        return float(statistics.median(getattr(one, name) for one in self.costs))

    @property
    def own(self) -> float:
        """Return the percentage of a processor without the driver's calls."""
        return statistics.median(
            (one.instructions - one.wakes * self.subject.driver) / one.seconds / 1e7 for one in self.costs
        )

    def line(self) -> str:
        """Return it as a line of the table."""
        stops = "free" if self.free else "simulated"
        wakes = f"{self.median('rate'):9.0f} {self.median('per_wake'):10.0f}"
        percent = f"{self.median('percent'):8.2f}" + (f" {self.own:7.2f}" if self.free else "")
        return f"{self.subject.engine:8} {stops:10} {self.policy:6} {wakes} {percent}"


HEAD = (
    f"{'engine':8} {'stops':10} {'policy':>6} {'wakes/s':>9} {'instr/wake':>10} {'thread %':>8} {'own %':>7}"
)


def row(subject: Subject, policy: int, rounds: int, seconds: float, *, free: bool) -> Row:
    """Measure one variant."""
    set_knob(subject.machine, "test_free_gates", int(free))
    subject.machine.shell('echo "$1" >"$2"', str(policy), f"{subject.tree}/0/policy")
    return Row(subject, free, policy, [cost(subject.machine, seconds) for _ in range(rounds)])


def rows(subject: Subject, rounds: int, seconds: float) -> Iterator[Row]:
    """Measure an engine with stops that cost nothing and with the simulated card's, under each policy."""
    for free in (True, False):
        for policy in (WEIGHT, PREEMPTIVE, NATIVE):
            yield row(subject, policy, rounds, seconds, free=free)


def compile_paced(directory: Path) -> Path:
    """Build the program that sleeps and calls."""
    source, headers = ROOT / "benchmarks" / "paced.c", ROOT / "kmod" / "build" / "gen"
    program = directory / "paced"
    must(["gcc", "-O2", "-static", f"-I{headers}", source, "-o", program])
    return program


def build(kernel: Kernel) -> None:
    """Build what the guest loads: its clock runs ahead while it waits for the host."""
    build_fake_driver(kernel)
    build_engine(kernel)


def measure(kernel: Kernel, directory: Path, rounds: int, seconds: float) -> list[Row]:
    """Measure both engines, one after the other on the same driver."""
    build(kernel)
    paced = compile_paced(directory)
    found: list[Row] = []
    with Machine(kernel, directory, counted=1) as machine:
        load_driver(machine)
        price = calls(machine, paced, seconds)
        print(f"a sleep: {price.sleep} instructions, a call that does nothing: {price.call}")
        with module(machine) as tree:
            found += rows(Subject(machine, MODULE, tree), rounds, seconds)
        with daemon(machine) as tree:
            # In each turn one container is stopped and another let run, by a call each.
            found += rows(Subject(machine, DAEMON, tree, 2 * price.call), rounds, seconds)
    return found


def too_dear(found: Sequence[Row]) -> list[str]:
    """Return the engines whose own part is beyond the bound."""
    return [one.subject.engine for one in found if one.free and one.policy == WEIGHT and one.own >= BOUND]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of the guest's time, for each")
    options = parser.parse_args(arguments)
    kernel = choose_kernel()
    emulator = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True).stdout
    print(
        f"kernel {kernel.release}, {emulator.splitlines()[0]}, {options.rounds} rounds of {options.seconds} s"
    )
    with tempfile.TemporaryDirectory(prefix="cgpu-turns-") as directory:
        found = measure(kernel, Path(directory), options.rounds, options.seconds)
    print("\n".join([HEAD, *(one.line() for one in found)]))
    dear = too_dear(found)
    if dear:
        print(f"{', '.join(dear)}: {BOUND:.0f} % of a processor or more", file=sys.stderr)
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main())
