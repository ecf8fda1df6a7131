# SPDX-License-Identifier: Apache-2.0
"""Whether a start with a slice costs the same in a row of 200, 25 at once, and on a node of 80 slices.

Needs root and a running engine with five cards: `cgpud --simulate T4:5`. A start is a whole life of a
container through runc, of a program that ends at once. Prints medians in milliseconds, each beside that of
runc alone, taken in turns.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.life import nothing_program
from benchmarks.lives_inside import running_server
from cgpu import paths
from cgpu.client.tree import Tree
from tests.integration.images import ROOT
from tests.integration.runtimes import LAUNCHER, Runc

IN_A_ROW = 200
AT_ONCE = 25
GPUS, PER_GPU = 4, 20  # what the node has when it is full; one GPU more is for the measured starts
EMPTY_GPU = GPUS
BLOCK = 40


def asking(gpu: int) -> dict[str, str]:
    return {"OPENCGPU_MEM": "512M", "OPENCGPU_GPUS": str(gpu)}


class Starts:
    """Starts by runc alone and by the wrapper with a slice."""

    def __init__(self, directory: Path) -> None:
        """Make the root file system of all containers."""
        self.runc = Runc(directory)
        nothing_program(self.runc.rootfs)
        self.plain = Path(shutil.which("runc") or "/usr/sbin/runc")

    def _run(self, binary: Path, env: Mapping[str, str]) -> None:
        self.runc.launcher = binary
        outcome = self.runc.run(["/nothing"], env)
        if outcome.returncode != 0:
            raise SystemExit(f"{binary}: {outcome.text}")

    def one_plain(self) -> None:
        self._run(self.plain, {})

    def one_sliced(self) -> None:
        self._run(LAUNCHER, asking(EMPTY_GPU))

    def at_once(self, binary: Path, env: Mapping[str, str]) -> float:
        """Start AT_ONCE lives together; return the milliseconds until the last has ended."""
        self.runc.launcher = binary
        bundles = [self.runc.bundle(self.runc.spec(["/nothing"], env)) for _ in range(AT_ONCE)]
        begun = time.perf_counter()
        running = [
            subprocess.Popen(
                [*self.runc.base, "run", "--bundle", bundle, f"many-{bundle.name}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            for bundle in bundles
        ]
        failed = [process.wait(timeout=120) for process in running]
        took = (time.perf_counter() - begun) * 1000
        if any(failed):
            raise SystemExit(f"{binary}, {AT_ONCE} at once: {failed}")
        return took

    def fill(self, gpu: int) -> None:
        """Start the slices of a full GPU."""
        self.runc.launcher = LAUNCHER
        for number in range(PER_GPU):
            name = f"full-{gpu}-{number}"
            outcome = self.runc.start(name, ["/cgpu-probe", "hold=3600"], asking(gpu))
            if outcome.returncode != 0:
                raise SystemExit(f"{name}: {outcome.text}")


def timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def in_turns(starts: Starts, count: int) -> tuple[list[float], list[float]]:
    """Return times without and with a slice."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        times[0].append(timed(starts.one_plain))
        times[1].append(timed(starts.one_sliced))
    return times


def line(what: str, plain: float, sliced: float) -> None:
    print(f"{what:36} {plain:8.1f} ms {sliced:8.1f} ms  +{sliced - plain:5.1f} ms")


def row(starts: Starts) -> None:
    """Measure starts one after the other."""
    in_turns(starts, 3)
    plain, sliced = in_turns(starts, IN_A_ROW)
    for first in range(0, IN_A_ROW, BLOCK):
        last = first + BLOCK
        medians = (statistics.median(times[first:last]) for times in (plain, sliced))
        line(f"starts {first + 1} to {last} in a row", *medians)


def full_node(starts: Starts, single: int) -> None:
    """Measure single starts while the node fills."""
    for gpus in range(GPUS + 1):
        medians = [statistics.median(times) for times in in_turns(starts, single)]
        line(f"one, beside {gpus * PER_GPU} slices", *medians)
        if gpus < GPUS:
            starts.fill(gpus)


def measure(starts: Starts, single: int, rounds: int) -> None:
    print(f"{'median of':36} {'runc':>11} {'a slice':>11}  added")
    row(starts)
    many: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        many[0].append(starts.at_once(starts.plain, {}))
        many[1].append(starts.at_once(LAUNCHER, asking(EMPTY_GPU)))
    line(f"{AT_ONCE} at once, each", *(statistics.median(times) / AT_ONCE for times in many))
    full_node(starts, single)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", type=int, default=40, help="how many single starts a median is of")
    parser.add_argument("--rounds", type=int, default=7, help=f"how often {AT_ONCE} are started at once")
    options = parser.parse_args()
    found = len(Tree(paths.tree(None)).gpus())
    if found <= GPUS:
        raise SystemExit(f"{found} GPUs; expected {GPUS + 1}: cgpud --simulate T4:{GPUS + 1}")
    with tempfile.TemporaryDirectory(prefix="cgpu-starts-") as name, running_server(str(ROOT)):
        starts = Starts(Path(name))
        try:
            measure(starts, options.single, options.rounds)
        finally:
            starts.runc.close()


if __name__ == "__main__":
    main()
