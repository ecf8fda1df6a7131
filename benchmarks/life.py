# SPDX-License-Identifier: Apache-2.0
"""Cost of a container's whole life above its low-level runtime, beside NVIDIA's own runtime.

Needs root and a running engine: `cgpud --simulate T4`. Every life runs once in each round, in an order that
is drawn anew, so that neither a change of the machine's speed nor what ran before favours one. Prints medians
in milliseconds with the quarters below and above, the added time, and the bars that a slice has to meet.

NVIDIA's runtime (--nvidia-runtime, or on PATH) runs a container without a GPU, and one with the whole card by
CDI; where nvidia-cdi-hook lies beside it, with the four hooks that `nvidia-ctk cdi generate` writes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lives_inside import in_rounds, running_server, whole_life, wrapper_server
from cgpu import paths
from tests.integration.commands import must
from tests.integration.images import IMAGE, ROOT
from tests.integration.runtimes import LAUNCHER, Containerd, Docker, Runc

SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
CARD = {"NVIDIA_VISIBLE_DEVICES": "0"}
PROGRAM = "int main(void) { return 0; }\n"
VENDOR_CONFIG = "NVIDIA_CTK_CONFIG_FILE_PATH"
# A slice adds at most so much of what NVIDIA's runtime adds for a whole card.
BAR = 0.8
MISSED = "MISSED"
NOT_MEASURED = "NOT MEASURED"
NO_VENDOR = "nvidia-container-runtime: not measured, no such binary on PATH (--nvidia-runtime names one)"
# Chance does as much less often than this: then lives are told apart.
SIGNIFICANT = 0.05
LOW_LEVELS = ("runc", "crun")
PLAIN = "plain"
SLICED = "a slice"
WHOLE_CARD = "NVIDIA's runtime, the card"
NO_CARD = "NVIDIA's runtime, no card"


@dataclass(frozen=True)
class Life:
    """One kind of life. way: the program that starts it. server: whether the wrapper has one.

    low_level: the low-level runtime in the engine's settings.
    """

    way: str
    variant: str
    run: Callable[[], object]
    low_level: str = "runc"
    server: bool = True
    times: list[float] = field(default_factory=list)

    def measure(self, *, counts: bool) -> None:
        """Run it once; counts: whether the time is kept."""
        set_low_level(self.low_level)
        with wrapper_server(there=self.server):
            start = time.perf_counter()
            self.run()
            took = (time.perf_counter() - start) * 1000
        if counts:
            self.times.append(took)


def set_low_level(name: str) -> None:
    settings = Path(paths.EFFECTIVE)
    found = json.loads(settings.read_text())
    found["low_level_runtime"] = shutil.which(name)
    settings.write_text(json.dumps(found))


@dataclass(frozen=True)
class Vendor:
    """NVIDIA's runtime, with a folder for its files."""

    runtime: Path
    directory: Path

    def configure(self, name: str, low_level: str) -> dict[str, str]:
        """Write a configuration and the card's description into a folder of that name.

        Return the environment that names them.
        """
        place = self.directory / name
        place.mkdir(parents=True)
        for file, text in vendor_files(self.runtime, str(place), low_level, simulated_card()).items():
            (place / file).write_text(text)
        return {VENDOR_CONFIG: f"{place}/config.toml"}


def simulated_card() -> dict[str, object]:
    """Return the edits that put the daemon's first card into a container."""
    description = json.loads(Path(paths.CDI).read_text())
    mounts = [
        *description["devices"][0]["containerEdits"]["mounts"],
        *description["containerEdits"]["mounts"],
    ]
    return {"mounts": mounts}


def vendor_files(runtime: Path, folder: str, low_level: str, card: Mapping[str, object]) -> dict[str, str]:
    """Return the files by which NVIDIA's runtime gives out a card, as `nvidia-ctk cdi generate` writes."""
    program = runtime.with_name("nvidia-cdi-hook")
    libraries = "/usr/lib/x86_64-linux-gnu"
    hooks = (
        ("create-symlinks", "--link", f"libcuda.so.1::{libraries}/libcuda.so"),
        ("enable-cuda-compat", "--host-driver-version=580.142"),
        ("update-ldcache", "--folder", libraries),
        ("disable-device-node-modification",),
    )
    entries = [
        {"hookName": "createContainer", "path": str(program), "args": [program.name, *words]}
        for words in hooks
    ]
    edits = {"hooks": entries if program.exists() else []}
    device = {"name": "0", "containerEdits": card}
    document = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [device], "containerEdits": edits}
    config = (
        f'[nvidia-container-runtime]\nmode = "cdi"\nruntimes = ["{low_level}"]\n'
        "[nvidia-container-runtime.modes.cdi]\n"
        f'default-kind = "nvidia.com/gpu"\nspec-dirs = ["{folder}"]\n'
    )
    return {"nvidia.json": json.dumps(document), "config.toml": config}


def nothing_program(rootfs: Path) -> None:
    source = rootfs.parent / "nothing.c"
    source.write_text(PROGRAM)
    must(["gcc", "-static", "-O2", source, "-o", rootfs / "nothing"])


def variants(
    way: str,
    low_level: str,
    life: Callable[[Path, Mapping[str, str]], Callable[[], object]],
    vendor: Path | None,
) -> Iterator[Life]:
    """Yield what one program starts. life: makes a life of a runtime and an environment."""
    plain = Path(shutil.which(low_level) or low_level)
    yield Life(way, PLAIN, life(plain, {}), low_level)
    yield Life(way, "the wrapper, no slice", life(LAUNCHER, {}), low_level)
    yield Life(way, SLICED, life(LAUNCHER, SLICE), low_level)
    yield Life(way, "a slice, no server", life(LAUNCHER, SLICE), low_level, server=False)
    if vendor is not None:
        yield Life(way, NO_CARD, life(vendor, {}), low_level)
        yield Life(way, WHOLE_CARD, life(vendor, CARD), low_level)


def runc_lives(directory: Path, low_level: str, vendor: Vendor | None) -> Iterator[Life]:
    """Yield lives by a low-level runtime's own command line."""
    directory.mkdir()
    runc = Runc(directory, low_level=low_level)
    nothing_program(runc.rootfs)
    environment = vendor.configure(low_level, low_level) if vendor is not None else {}

    def life(binary: Path, env: Mapping[str, str]) -> Callable[[], object]:
        def run() -> None:
            runc.launcher = binary
            # Under crun NVIDIA's hooks write to the root file system after it was made read-only.
            root = {"path": str(runc.rootfs), "readonly": False}
            bundle = runc.bundle({**runc.spec(["/nothing"], env), "root": root})
            whole_life(runc.base, bundle, f"life-{bundle.name}", environment)

        return run

    yield from variants(low_level, low_level, life, vendor.runtime if vendor is not None else None)


def ctr_lives(directory: Path, vendor: Vendor | None) -> tuple[list[Life], Callable[[], None]]:
    """Return lives through containerd, and a function that ends it."""
    directory.mkdir()
    os.environ.update(vendor.configure("ctr", "runc") if vendor is not None else {})
    engine = Containerd(directory)

    def life(binary: Path, env: Mapping[str, str]) -> Callable[[], object]:
        def run() -> None:
            engine.runc_binary = binary
            outcome = engine.run(["/cgpu-probe", "--help"], env)
            if outcome.returncode != 0:
                raise SystemExit(f"ctr with {binary}: {outcome.text}")

        return run

    found = variants("ctr run", "runc", life, vendor.runtime if vendor is not None else None)
    return list(found), engine.close


def docker_lives(directory: Path, ends: ExitStack, *, as_shipped: bool) -> list[Life]:
    """Return lives through docker; none, and a line says so, where dockerd does not start in this way.

    ends: gets what ends it. as_shipped: with docker's default network and storage; else with as little of
    both as there can be.
    """
    directory.mkdir()
    way = "docker run" if as_shipped else "docker run --network none"
    try:
        engine = Docker(directory, as_shipped=as_shipped)
    except AssertionError as error:
        print(f"{way}: not measured, dockerd does not start: {str(error).splitlines()[-1]}")
        return []
    ends.callback(engine.close)
    network = [] if as_shipped else ["--network", "none"]

    def life(runtime: str, *words: str) -> Callable[[], object]:
        def run() -> None:
            command = ["run", "--rm", *network, "--runtime", runtime, *words, IMAGE]
            outcome = engine.call(*command, "/cgpu-probe", "--help")
            if outcome.returncode != 0:
                raise SystemExit(f"docker with {runtime}: {outcome.text}")

        return run

    asked = [word for name, value in SLICE.items() for word in ("-e", f"{name}={value}")]
    return [
        Life(way, PLAIN, life("runc")),
        Life(way, "the wrapper, no slice", life("cgpu")),
        Life(way, SLICED, life("cgpu", *asked)),
    ]


def report(measured: Mapping[tuple[str, str], Sequence[float]], due: Sequence[str] = ()) -> list[str]:
    """Print medians, each life's addition to the plain one, and the bars. Return the bars that fail.

    measured: milliseconds of each life, by the program that starts it and its variant. due: programs that
    have to have a bar, whether or not their lives could be run.
    """
    bars = []
    median = {life: statistics.median(times) for life, times in measured.items()}
    for (way, variant), times in measured.items():
        value, base = median[way, variant], median.get((way, PLAIN))
        ordered = sorted(times)
        low, high = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
        added = f"  +{value - base:5.1f} ms ({value / base:.2f}x)" if base and variant != PLAIN else ""
        print(f"{f'{way}: {variant}':44} {value:8.1f} ms {f'({low:.1f} to {high:.1f})':18}{added}")
    for way in dict.fromkeys([*(way for way, _ in measured), *due]):
        found = {variant: value for (one, variant), value in median.items() if one == way}
        if way in due or WHOLE_CARD in found:
            bars += [f"{way}: {bar_of(found)}", *(f"{way}: {said}" for said in beside_no_card(found))]
        if {PLAIN, SLICED} <= found.keys():
            bars.append(f"{way}: {told_apart(measured[way, PLAIN], measured[way, SLICED])}")
    print("\n".join(bars))
    return failed(bars)


def told_apart(plain: Sequence[float], sliced: Sequence[float]) -> str:
    """Say whether these many lives with a slice can be told from plain ones (Mann and Whitney's rank sum)."""
    longer, chance = rank_sum(sliced, plain)
    found = "cannot" if chance >= SIGNIFICANT else "can"
    pairs = f"a life with a slice takes longer than a plain one {100 * longer:.0f} times of 100"
    return f"{pairs}; {len(plain)} of each {found} be told apart (p {chance:.3f})"


def rank_sum(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """Return in how many of all pairs the first is greater, 0 to 1, and how likely chance does as much."""
    pairs = len(ones) * len(others)
    greater = sum((one > other) + (one == other) / 2 for one in ones for other in others)
    deviation = math.sqrt(pairs * (len(ones) + len(others) + 1) / 12)
    return greater / pairs, 2 * statistics.NormalDist().cdf(-abs(greater - pairs / 2) / deviation)


def failed(bars: Sequence[str]) -> list[str]:
    """Return the bars that are missed, or were due and could not be measured."""
    return [one for one in bars if one.endswith((MISSED, NOT_MEASURED))]


def bar_of(median: Mapping[str, float]) -> str:
    """Return the bar of medians by their variants."""
    missing = [name for name in (PLAIN, SLICED, WHOLE_CARD) if name not in median]
    if missing:
        return f"bar: {', '.join(missing)} was not run: {NOT_MEASURED}"
    return bar(median[SLICED] - median[PLAIN], median[WHOLE_CARD] - median[PLAIN])


def beside_no_card(median: Mapping[str, float]) -> list[str]:
    """Say what a slice adds beside NVIDIA's runtime where that has nothing to do."""
    if not {PLAIN, SLICED, NO_CARD} <= median.keys() or median[NO_CARD] <= median[PLAIN]:
        return []
    ratio = (median[SLICED] - median[PLAIN]) / (median[NO_CARD] - median[PLAIN])
    return [f"a slice adds {ratio:.2f} of what {NO_CARD} adds, where that changes nothing"]


def bar(slice_adds: float, peer_adds: float) -> str:
    """Return whether a slice adds little enough, of milliseconds that were measured in one run."""
    if peer_adds <= 0:
        return f"bar: {WHOLE_CARD} adds nothing: {NOT_MEASURED}"
    ratio = slice_adds / peer_adds
    said = "met" if ratio <= BAR else MISSED
    return f"bar: a slice adds {ratio:.2f} of what {WHOLE_CARD} adds, at most {BAR}: {said}"


def main() -> None:
    """Measure and print; exit with 1 where a bar is missed, or is due and could not be measured."""
    rounds, runtime = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="cgpu-life-") as name, running_server(str(ROOT)):
        directory = Path(name)
        vendor = Vendor(runtime, directory / "nvidia") if runtime is not None else None
        bars = measure(directory, vendor, rounds)
    raise SystemExit(1 if bars else 0)


def options(description: str | None) -> tuple[int, Path | None]:
    """Return the number of rounds and NVIDIA's runtime, as the command line says; say where there is none."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nvidia-runtime", type=Path, default=shutil.which("nvidia-container-runtime"))
    chosen = parser.parse_args()
    if chosen.nvidia_runtime is None:
        print(NO_VENDOR)
        return chosen.rounds, None
    return chosen.rounds, Path(chosen.nvidia_runtime)


def measure(directory: Path, vendor: Vendor | None, rounds: int) -> list[str]:
    """Run all lives in rounds, and report. Return the bars that fail."""
    low_levels = [name for name in LOW_LEVELS if shutil.which(name)]
    lives: list[Life] = []
    with ExitStack() as ends:
        for as_shipped in (True, False) if shutil.which("dockerd") else ():
            place = directory / ("docker-as-shipped" if as_shipped else "docker")
            lives += docker_lives(place, ends, as_shipped=as_shipped)
        by_ctr, end = ctr_lives(directory / "ctr", vendor)
        ends.callback(end)
        lives += by_ctr
        for low_level in low_levels:
            lives += filter(works, runc_lives(directory / low_level, low_level, vendor))
        for life, counts in in_rounds(lives, rounds):
            life.measure(counts=counts)
        measured = {(life.way, life.variant): life.times for life in lives}
        return report(measured, ["ctr run", *low_levels] if vendor is not None else [])


def works(life: Life) -> bool:
    """Say so where a life is not possible on this machine."""
    try:
        life.measure(counts=False)
    except subprocess.CalledProcessError:
        print(f"{life.way}: {life.variant}: not measured, this machine cannot run it")
        return False
    return True


if __name__ == "__main__":
    main()
