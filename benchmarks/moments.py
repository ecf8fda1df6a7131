# SPDX-License-Identifier: Apache-2.0
"""Milliseconds of a life, with a slice and without: to its program, and from it to the end.

Needs root and a running engine: `cgpud --simulate T4`; with --module, what module_life.py needs. Lives run in
turns as in life.py. Prints medians of the parts: by docker and ctr up to the program's first instruction and
from there to the end, by runc and crun also those of the three commands.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from benchmarks.life import PLAIN, SLICE, SLICED, Life, set_low_level
from benchmarks.lives_inside import around, in_rounds, moments, running_server
from benchmarks.module_life import LOW_LEVELS, loaded_machine
from benchmarks.module_life import measure as measure_in_machine
from tests.integration.commands import Outcome, must
from tests.integration.images import IMAGE, ROOT
from tests.integration.runtimes import LAUNCHER, Containerd, Docker, Runc

Parts = Mapping[str, float]


def moment_program(directory: Path) -> Path:
    program = directory / "moment"
    must(["gcc", "-static", "-O2", ROOT / "benchmarks" / "moment.c", "-o", program])
    return program


def of_engine(run: Callable[[], Outcome]) -> Parts:
    """Live a life by a container engine, which hands the program's output on."""
    begun = time.monotonic()
    outcome = run()
    ended = time.monotonic()
    if outcome.returncode != 0:
        raise SystemExit(outcome.text)
    return around(begun, outcome.stdout, ended)


def docker_lives(directory: Path, program: Path, stack: ExitStack) -> Iterator[Life]:
    engine = Docker(directory)
    stack.callback(engine.close)

    def life(runtime: str, *words: str) -> Callable[[], object]:
        command = ["run", "--rm", "--network", "none", "--runtime", runtime, *words]
        return lambda: of_engine(
            lambda: engine.call(*command, "-v", f"{program}:/moment:ro", IMAGE, "/moment")
        )

    yield Life("docker, no network", PLAIN, life("runc"))
    asked = (word for name, value in SLICE.items() for word in ("-e", f"{name}={value}"))
    yield Life("docker, no network", SLICED, life("cgpu", *asked))


def ctr_lives(directory: Path, program: Path, stack: ExitStack) -> Iterator[Life]:
    engine = Containerd(directory)
    stack.callback(engine.close)
    mount = ("--mount", f"type=bind,src={program},dst=/moment,options=rbind:ro")

    def life(binary: Path, env: Mapping[str, str]) -> Callable[[], object]:
        def run() -> Outcome:
            engine.runc_binary = binary
            return engine.run(["/moment"], env, *mount)

        return lambda: of_engine(run)

    yield Life("ctr", PLAIN, life(Path(shutil.which("runc") or "runc"), {}))
    yield Life("ctr", SLICED, life(LAUNCHER, SLICE))


def low_level_lives(directory: Path, program: Path, low_level: str) -> Iterator[Life]:
    runc = Runc(directory, low_level=low_level)
    shutil.copy2(program, runc.rootfs / "moment")

    def life(binary: Path, env: Mapping[str, str]) -> Callable[[], object]:
        def run() -> Parts:
            runc.launcher = binary
            bundle = runc.bundle(runc.spec(["/moment"], env))
            return moments(runc.base, bundle, f"moment-{bundle.name}", {})

        return run

    yield Life(low_level, PLAIN, life(Path(shutil.which(low_level) or low_level), {}), low_level)
    yield Life(low_level, SLICED, life(LAUNCHER, SLICE), low_level)


def report(way: str, plain: Sequence[Parts], sliced: Sequence[Parts]) -> None:
    """Print each part's medians."""
    for part in plain[0]:
        base, value = (statistics.median(one[part] for one in lives) for lives in (plain, sliced))
        print(f"{f'{way}: {part}':38} {base:8.1f} ms {value:8.1f} ms   +{value - base:5.1f} ms")


def with_daemon(rounds: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="cgpu-life-") as name,
        running_server(str(ROOT)),
        ExitStack() as stack,
    ):
        directory = Path(name)
        for folder in ("docker", "ctr", *LOW_LEVELS):
            (directory / folder).mkdir()
        program = moment_program(directory)
        lives = [
            *docker_lives(directory / "docker", program, stack),
            *ctr_lives(directory / "ctr", program, stack),
            *(life for low in LOW_LEVELS for life in low_level_lives(directory / low, program, low)),
        ]
        found: dict[tuple[str, str], list[Parts]] = {}
        for life, counts in in_rounds(lives, rounds):
            set_low_level(life.low_level)
            parts = cast("Parts", life.run())
            if counts:
                found.setdefault((life.way, life.variant), []).append(parts)
    for way in dict.fromkeys(life.way for life in lives):
        report(way, found[way, PLAIN], found[way, SLICED])


def with_module(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="cgpu-life-") as name, loaded_machine() as machine:
        program = moment_program(Path(name))
        for low_level in LOW_LEVELS:
            times = measure_in_machine(machine, low_level, None, rounds, program)
            report(f"{low_level}, module", times[PLAIN], times[SLICED])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--module", action="store_true")
    options = parser.parse_args()
    print(f"{'':38} {PLAIN:>11} {SLICED:>11}   added")
    (with_module if options.module else with_daemon)(options.rounds)


if __name__ == "__main__":
    main()
