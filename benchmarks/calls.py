# SPDX-License-Identifier: Apache-2.0
"""Cost of an engine for single calls of a container's program, medians over rounds, with ratios.

By default cgpud's, in nanoseconds: needs root and `cgpud --simulate T4`, which runs. A plain container, which
has the simulated card without supervision, and a sliced one take turns.

--module: cgpu_km's, in instructions, whatever else the host does: boots a virtual machine whose clock goes by
one nanosecond with each instruction, with NVIDIA's driver of the version that CGPU_VM_DRIVER names, else with
a fake one. A call without the module, of a task outside of all instances, inside with the ledger alone
(count_pages=N), and inside with both counts take turns. Needs what `scripts/bootstrap test` installs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.integration.runtimes import Runc
from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, real_driver, unload_engine
from tests.vm.harness.slices import await_empty, slice_of
from tests.vm.nvidia.driver import BOOT_ARGUMENTS
from tests.vm.programs import build

SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
SIMULATED = Path("/run/cgpu/sim")
LIMIT = 1 << 30
COUNTED = 1  # nanosecond of the guest's clock for each instruction

# Figures of a program's run in a place: one line for each kind of call, with its median.
Runs = Iterator[tuple[str, str]]


def plain_spec(runc: Runc, command: list[str]) -> dict[str, object]:
    """A container with the simulated card's nodes and no supervision."""
    spec = runc.spec(command, {})
    mounts = spec["mounts"]
    assert isinstance(mounts, list)
    for node in ("nvidiactl", "nvidia0"):
        options = ["bind", "rw", "nosuid", "noexec"]
        source = f"{SIMULATED}/{node}"
        mounts.append({"destination": f"/dev/{node}", "type": "bind", "source": source, "options": options})
    return spec


def in_containers(directory: Path, rounds: int, count: int) -> Runs:
    """Run the program in a plain container and in a sliced one of cgpud."""
    runc = Runc(directory)
    shutil.copy(build("cost"), runc.rootfs / "cost")
    command = ["/cost", str(count)]
    for number in range(rounds):
        for place, spec in (("plain", plain_spec(runc, command)), ("sliced", runc.spec(command, SLICE))):
            outcome = runc.run_bundle(runc.bundle(spec), f"{place}{number}")
            if outcome.returncode != 0:
                raise SystemExit(f"{place}: {outcome.text}")
            yield place, outcome.stdout
    runc.close()


def in_machine(directory: Path, rounds: int, count: int) -> Runs:
    """Run the program in a virtual machine, with the module loaded anew in each round."""
    kernel, driver, program = choose_kernel(), real_driver(), build("cost")
    booted = () if driver is None else BOOT_ARGUMENTS
    print(f"kernel {kernel.release}, {driver or 'fake driver'}")
    with Machine(kernel, directory, arguments=booted, counted=COUNTED) as machine:
        machine.wait_ready()
        load_driver(machine)
        command = [machine.seen(program), str(count)]
        for _ in range(rounds):
            yield "without", machine.run(command, timeout=300).stdout
            for place, counts_pages in (("ledger", "N"), ("pages", "Y")):
                load_engine(machine, count_pages=counts_pages)
                container = slice_of(machine, "cost", f"0:{LIMIT}")
                yield "outside", machine.run(command, timeout=300).stdout
                yield place, container.run(program, str(count), timeout=300).check().stdout
                container.end()
                await_empty(machine)
                unload_engine(machine)


def table(runs: Runs) -> Iterator[str]:
    """Yield a line for each kind of call: its median in each place, and the ratio to the first place."""
    times: dict[str, dict[str, list[int]]] = {}
    for place, text in runs:
        for line in text.splitlines():
            call, took = line.split()
            times.setdefault(call, {}).setdefault(place, []).append(int(took))
    for call, places in times.items():
        medians = {place: statistics.median(found) for place, found in places.items()}
        base = next(iter(medians.values()))
        figures = (f"{place} {median:.0f} ({median / base:.2f})" for place, median in medians.items())
        yield f"{call:16}" + "".join(f"{figure:>24}" for figure in figures)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    measure = in_machine if options.module else in_containers
    with tempfile.TemporaryDirectory(prefix="cgpu-calls-") as name:
        print("\n".join(table(measure(Path(name), options.rounds, options.count))))


if __name__ == "__main__":
    main()
