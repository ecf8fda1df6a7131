# SPDX-License-Identifier: Apache-2.0
"""Cost of the kernel module for single calls of the driver, for tasks outside and inside of an instance.

Boots a virtual machine with NVIDIA's driver of the version that CGPU_VM_DRIVER names, else with a fake one.
Its clock goes by one nanosecond with each instruction, so the figures are instructions, whatever else the
host does. A call without the module, outside, inside with the ledger alone (count_pages=N) and inside with
both counts take turns; the medians over all rounds are printed, and ratios to the same call without the
module. Needs root and what `scripts/bootstrap test` installs. Exits with 1 when a task outside pays half of
what one inside pays or more.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import QEMU, Machine
from tests.vm.harness.node import load_driver, load_engine, real_driver, unload_driver, unload_engine
from tests.vm.harness.slices import Slice, await_empty, slice_of
from tests.vm.nvidia.driver import BOOT_ARGUMENTS
from tests.vm.programs import build

PLACES = ("without", "outside", "ledger", "pages")
LIMIT = 1 << 30
COUNTED = 1  # nanosecond of the guest's clock for each instruction
DRIVER_CALLS = ("free-nothing", "fb-info-v2", "alloc-free")


@dataclass
class Costs:
    """Instructions by call and by place, one figure for each round."""

    times: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def add(self, place: str, text: str) -> None:
        """Take what the program printed."""
        for line in text.splitlines():
            call, took = line.split()
            self.times.setdefault(call, {}).setdefault(place, []).append(int(took))

    def median(self, call: str, place: str) -> float:
        """Return the median over all rounds."""
        return statistics.median(self.times[call][place])

    def added(self, call: str, place: str) -> float:
        """Return by how many instructions a call takes longer than without the module."""
        return self.median(call, place) - self.median(call, "without")

    def lines(self) -> list[str]:
        """Return the table."""
        lines = [f"{'call':14}" + "".join(f"{place:>10} {'ratio':>6}" for place in PLACES)]
        for call in self.times:
            base = self.median(call, PLACES[0])
            figures = [self.median(call, place) for place in PLACES]
            lines.append(f"{call:14}" + "".join(f"{figure:10.0f} {figure / base:6.2f}" for figure in figures))
        return lines

    def too_dear_outside(self) -> list[str]:
        """Return the driver's calls that cost a task outside half of what they cost one inside, or more."""
        return [call for call in DRIVER_CALLS if self.added(call, "outside") >= self.added(call, "pages") / 2]


def once(machine: Machine, costs: Costs, count: int) -> None:
    """Measure in all places."""
    program = build("cost")
    command = [machine.seen(program), str(count)]
    costs.add("without", machine.run(command, timeout=300).stdout)
    for place, counts_pages in (("ledger", "N"), ("pages", "Y")):
        load_engine(machine, count_pages=counts_pages)
        container: Slice = slice_of(machine, "cost", f"0:{LIMIT}")
        costs.add("outside", machine.run(command, timeout=300).stdout)
        costs.add(place, container.run(program, str(count), timeout=300).check().stdout)
        container.end()
        await_empty(machine)
        unload_engine(machine)


def measure(machine: Machine, rounds: int, count: int) -> Costs:
    """Measure so many rounds, each with the module loaded anew."""
    costs = Costs()
    load_driver(machine)
    for _ in range(rounds):
        once(machine, costs, count)
    unload_driver(machine)
    return costs


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=500)
    options = parser.parse_args(arguments)
    kernel, driver = choose_kernel(), real_driver()
    emulator = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True).stdout
    booted = () if driver is None else BOOT_ARGUMENTS
    with (
        tempfile.TemporaryDirectory(prefix="cgpu-calls-") as directory,
        Machine(kernel, Path(directory), arguments=booted, counted=COUNTED) as machine,
    ):
        machine.wait_ready()
        costs = measure(machine, options.rounds, options.count)
    named = "fake driver" if driver is None else f"NVIDIA's driver {driver.version}"
    how = f"{options.rounds} rounds of {options.count}"
    print(f"{named}, kernel {kernel.release}, {emulator.splitlines()[0]}, {how}")
    print("\n".join(costs.lines()))
    dear = costs.too_dear_outside()
    if dear:
        print(
            f"{', '.join(dear)}: a task outside pays half of what one inside pays, or more", file=sys.stderr
        )
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main())
