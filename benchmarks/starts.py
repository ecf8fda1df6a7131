# SPDX-License-Identifier: Apache-2.0
"""Starts of slices under load, through runc, with an engine and simulated cards of its own.

Three questions: does the 200th of 200 starts in a row cost what the first does; do 25 starts at once take
as long as 25 single ones; does the 81st slice of a node start as fast as the first. The same is done without
slices, so that what the machine does to runc can be told apart. A start is a container's whole life: its
program ends at once. Needs root. Prints milliseconds and ratios.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.life import timed
from tests.integration.commands import must
from tests.integration.engine import Engine
from tests.integration.runtimes import LAUNCHER, Runc

CARDS = 5
PLACES = 25  # of a card
HELD = 80  # slices on all cards but the last
LAST = CARDS - 1  # the card of all starts that are measured; the others are filled
WARM = 3
PROGRAMS = {
    "nothing": "int main(void) { return 0; }\n",
    "wait": "int pause(void);\nint main(void) { return pause(); }\n",
}
CONFIG = {"max_inst": PLACES}


@dataclass
class Node:
    """runc with the wrapper and without, on a node with an engine."""

    sliced: Runc
    plain: Runc

    def start(self, runc: Runc) -> float:
        """Return the milliseconds of one life."""
        return timed(lambda: check(runc, runc.run(["/nothing"], ask(LAST)).returncode))

    def at_once(self, runc: Runc, count: int) -> float:
        """Return the milliseconds until the last of so many lives has ended."""
        names = [f"once-{runc.directory.name}-{runc.count + number}" for number in range(count)]
        bundles = [runc.bundle(runc.spec(["/nothing"], ask(LAST)), name) for name in names]

        def run() -> None:
            running = [runc.spawn(bundle, name) for bundle, name in zip(bundles, names, strict=True)]
            for one in running:
                check(runc, one.wait(timeout=120))

        return timed(run)

    def fill(self) -> None:
        """Start slices that stay, on all cards but the last."""
        for number in range(HELD):
            outcome = self.sliced.start(f"held-{number}", ["/wait"], ask(number % LAST))
            if outcome.returncode != 0:
                raise SystemExit(f"slice {number + 1} does not start: {outcome.text}")


def ask(gpu: int) -> dict[str, str]:
    return {"OPENCGPU_MEM": "512M", "NVIDIA_VISIBLE_DEVICES": str(gpu)}


def check(runc: Runc, status: int) -> None:
    if status != 0:
        raise SystemExit(f"{runc.launcher} run: exit {status}")


def prepared(directory: Path, launcher: Path) -> Runc:
    """Return runc with a root file system that has the programs."""
    directory.mkdir()
    runc = Runc(directory, launcher=launcher)
    for name, text in PROGRAMS.items():
        source = directory / f"{name}.c"
        source.write_text(text)
        must(["gcc", "-static", "-O2", source, "-o", runc.rootfs / name])
    return runc


@contextmanager
def node() -> Iterator[Node]:
    """Have an engine with empty cards."""
    with tempfile.TemporaryDirectory(prefix="cgpu-starts-") as name:
        engine = Engine(f"T4:{CARDS}", CONFIG, Path(name))
        sliced = prepared(Path(name) / "sliced", LAUNCHER)
        plain = prepared(Path(name) / "plain", Path(shutil.which("runc") or "/usr/sbin/runc"))
        engine.start()
        try:
            yield Node(sliced, plain)
        finally:
            sliced.close()
            plain.close()
            engine.stop()


def line(what: str, first: float, second: float) -> None:
    print(f"{what:58} {first:8.1f} {second:8.1f}   {second / first:5.2f}")


def in_a_row(on: Node, count: int) -> None:
    """A sliced start and a plain one by turns, so that a change of the machine's speed meets both."""
    sliced, plain = [], []
    for _ in range(count):
        sliced.append(on.start(on.sliced))
        plain.append(on.start(on.plain))
    tenth = max(1, count // 10)
    added = [one - other for one, other in zip(sliced, plain, strict=True)]
    for what, times in (("sliced", sliced), ("plain", plain), ("added", added)):
        first, last = statistics.median(times[:tenth]), statistics.median(times[-tenth:])
        line(f"{count} in a row, {what}: median of the first and last {tenth}", first, last)


def together(on: Node, count: int, rounds: int) -> None:
    """So many one after the other, and at once."""
    for what, runc in (("sliced", on.sliced), ("plain", on.plain)):
        single = median(rounds, lambda runc=runc: sum(on.start(runc) for _ in range(count)))  # type: ignore[misc]
        once = median(rounds, lambda runc=runc: on.at_once(runc, count))  # type: ignore[misc]
        line(f"{count} {what}: one after the other, and at once", single, once)


def median(rounds: int, action: Callable[[], float]) -> float:
    return statistics.median(action() for _ in range(rounds))


def filled(on: Node, starts: int) -> None:
    """The first slice of a node, and the one after those that fill all other cards."""
    sides = (on.sliced, on.plain)
    empty = [median(starts, lambda runc=runc: on.start(runc)) for runc in sides]  # type: ignore[misc]
    on.fill()
    full = [median(starts, lambda runc=runc: on.start(runc)) for runc in sides]  # type: ignore[misc]
    for what, first, last in zip(("sliced", "plain"), empty, full, strict=True):
        line(f"{what}: on an empty node, and beside {HELD} slices", first, last)
    line(f"added: on an empty node, and beside {HELD} slices", empty[0] - empty[1], full[0] - full[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("--row", type=int, default=200, help="starts in a row")
    parser.add_argument("--once", type=int, default=PLACES, help="starts at once, at most a card's places")
    parser.add_argument("--rounds", type=int, default=5, help="how often to start so many at once")
    options = parser.parse_args()
    print(f"{'ms':58} {'first':>8} {'second':>8}   ratio")
    with node() as on:
        for _ in range(WARM):
            on.start(on.sliced)
            on.start(on.plain)
        in_a_row(on, options.row)
        together(on, options.once, options.rounds)
        filled(on, 4 * options.rounds)


if __name__ == "__main__":
    main()
