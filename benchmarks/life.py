# SPDX-License-Identifier: Apache-2.0
"""Cost of a container's whole life above its low-level runtime, beside NVIDIA's own runtime.

Needs root and a running engine: `cgpud --simulate T4`. Every life runs once in each round, in an order that
is drawn anew, so that neither a change of the machine's speed nor what ran before favours one. Prints medians
in milliseconds with the quarters below and above, the added time, and the bars that a slice has to meet.

NVIDIA's runtime (--nvidia-runtime, or on PATH) gives out the whole card by CDI; where nvidia-cdi-hook lies
beside it, with the four hooks that `nvidia-ctk cdi generate` writes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cgpu import paths
from tests.integration.commands import Outcome
from tests.integration.engine import WRAPPER_SOCKET, wrapper_server
from tests.integration.images import IMAGE
from tests.integration.runtimes import LAUNCHER, Containerd, Docker, Runc

SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
CARD = {"NVIDIA_VISIBLE_DEVICES": "0"}
VENDOR_CONFIG = "NVIDIA_CTK_CONFIG_FILE_PATH"
PLAIN, SLICED, WHOLE_CARD = "plain", "a slice", "NVIDIA's runtime, the card"
# A slice adds at most so much of what NVIDIA's runtime adds for a whole card.
BAR = 0.8
FIRST_ROUNDS = 2  # which warm caches, and do not count
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

# Runs a container by a runtime's program, with variables.
Run = Callable[[Path, Mapping[str, str]], None]


@dataclass(frozen=True)
class Life:
    """One kind of life. way: the program that starts it. server: whether the wrapper has one."""

    way: str
    variant: str
    run: Callable[[], None]
    low_level: str
    server: bool = True
    times: list[float] = field(default_factory=list)

    def measure(self, *, counts: bool) -> None:
        """Run it once; counts: whether the time is kept."""
        set_low_level(self.low_level)
        away = WRAPPER_SOCKET.with_suffix(".away")
        if not self.server:
            WRAPPER_SOCKET.rename(away)
        try:
            start = time.perf_counter()
            self.run()
            took = (time.perf_counter() - start) * 1000
        finally:
            if not self.server:
                away.rename(WRAPPER_SOCKET)
        if counts:
            self.times.append(took)


def set_low_level(name: str) -> None:
    """Have the wrapper run it: from the settings, and by the links that the engine keeps."""
    program = shutil.which(name)
    assert program is not None
    settings = Path(paths.EFFECTIVE)
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"low_level_runtime": program}))
    for link in (Path(paths.LOW_LEVEL), Path(paths.LOW_LEVEL_PLAIN)):
        link.unlink()
        link.symlink_to(program)


def lives(way: str, low_level: str, run: Run, vendor: Path | None) -> Iterator[Life]:
    """Yield what one program starts."""
    plain = Path(shutil.which(low_level) or low_level)
    yield Life(way, PLAIN, lambda: run(plain, {}), low_level)
    yield Life(way, "the wrapper, no slice", lambda: run(LAUNCHER, {}), low_level)
    yield Life(way, SLICED, lambda: run(LAUNCHER, SLICE), low_level)
    yield Life(way, "a slice, no server", lambda: run(LAUNCHER, SLICE), low_level, server=False)
    if vendor is not None:
        yield Life(way, WHOLE_CARD, lambda: run(vendor, CARD), low_level)


def vendor_config(runtime: Path, place: Path, low_level: str) -> str:
    """Describe the daemon's first card for CDI and NVIDIA's runtime; return that one's configuration."""
    program, libraries = runtime.with_name("nvidia-cdi-hook"), "/usr/lib/x86_64-linux-gnu"
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
    ours = json.loads(Path(paths.CDI).read_text())
    mounts = [*ours["devices"][0]["containerEdits"]["mounts"], *ours["containerEdits"]["mounts"]]
    description = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"mounts": mounts}}],
        "containerEdits": {"hooks": entries if program.exists() else []},
    }
    (place / "nvidia.json").write_text(json.dumps(description))
    config = place / "nvidia.toml"
    config.write_text(
        f'[nvidia-container-runtime]\nmode = "cdi"\nruntimes = ["{low_level}"]\n'
        "[nvidia-container-runtime.modes.cdi]\n"
        f'default-kind = "nvidia.com/gpu"\nspec-dirs = ["{place}"]\n'
    )
    return str(config)


def whole_life(base: Sequence[str], bundle: Path) -> None:
    """Create, start, await and delete a container, as engines do: NVIDIA's runtime ignores `run`."""
    name = f"life-{bundle.name}"

    def call(*words: str) -> None:
        # Without pipes: the container keeps what create was given.
        nothing = subprocess.DEVNULL
        subprocess.run([*base, *words], stdin=nothing, stdout=nothing, check=True, timeout=300)

    # As containerd's shim: the container's process is this one's child when create has ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    call("create", "--bundle", str(bundle), "--pid-file", str(bundle / "pid"), name)
    call("start", name)
    # One that is not reaped keeps its cgroup busy, and runc waits before it tries again to remove that.
    os.waitpid(int((bundle / "pid").read_text()), 0)
    call("delete", name)


def by_command(directory: Path, low_level: str, vendor: Path | None) -> Iterator[Life]:
    """Yield lives by a low-level runtime's own command line."""
    directory.mkdir()
    runc = Runc(directory, low_level=low_level)
    config = vendor_config(vendor, directory, low_level) if vendor is not None else ""

    def run(binary: Path, env: Mapping[str, str]) -> None:
        os.environ[VENDOR_CONFIG] = config
        runc.launcher = binary
        # Under crun NVIDIA's hooks write to the root file system after it was made read-only.
        root = {"path": str(runc.rootfs), "readonly": False}
        whole_life(runc.base, runc.bundle({**runc.spec(["/cgpu-probe", "--help"], env), "root": root}))

    yield from lives(low_level, low_level, run, vendor)


def must_end_well(outcome: Outcome) -> None:
    if outcome.returncode != 0:
        raise SystemExit(outcome.text)


def by_ctr(engine: Containerd, vendor: Path | None) -> Iterator[Life]:
    """Yield lives through containerd, whose shims have its environment."""

    def run(binary: Path, env: Mapping[str, str]) -> None:
        engine.runc_binary = binary
        must_end_well(engine.run(["/cgpu-probe", "--help"], env))

    yield from lives("ctr run", "runc", run, vendor)


def by_docker(engine: Docker) -> Iterator[Life]:
    """Yield lives through docker."""

    def run(runtime: str, env: Mapping[str, str]) -> None:
        variables = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        command = ["run", "--rm", "--network", "none", "--runtime", runtime, *variables, IMAGE]
        must_end_well(engine.call(*command, "/cgpu-probe", "--help"))

    yield Life("docker run", PLAIN, lambda: run("runc", {}), "runc")
    yield Life("docker run", "the wrapper, no slice", lambda: run("cgpu", {}), "runc")
    yield Life("docker run", SLICED, lambda: run("cgpu", SLICE), "runc")


def report(measured: Sequence[Life]) -> bool:
    """Print medians, each life's addition to the plain one, and the bars. Return whether all bars are met."""
    median = {(life.way, life.variant): statistics.median(life.times) for life in measured}
    for life in measured:
        low, _, high = statistics.quantiles(life.times, n=4)
        value, base = median[life.way, life.variant], median[life.way, PLAIN]
        added = f"  +{value - base:5.1f} ms ({value / base:.2f}x)" if life.variant != PLAIN else ""
        print(f"{f'{life.way}: {life.variant}':40} {value:8.1f} ms {f'({low:.1f} to {high:.1f})':18}{added}")
    met = True
    for way in [way for way, variant in median if variant == WHOLE_CARD]:
        slice_adds, vendor_adds = (median[way, one] - median[way, PLAIN] for one in (SLICED, WHOLE_CARD))
        met &= slice_adds <= BAR * vendor_adds
        adds = f"a slice adds {slice_adds:.1f} ms, {WHOLE_CARD} {vendor_adds:.1f} ms"
        print(f"{way}: {adds}; the bar is {BAR} of that")
    return met


@contextmanager
def all_lives(directory: Path, vendor: Path | None) -> Iterator[list[Life]]:
    """Have the container engines of this machine; yield the lives that they can start."""
    for name in ("docker", "ctr"):
        (directory / name).mkdir()
    if vendor is not None:
        os.environ[VENDOR_CONFIG] = vendor_config(vendor, directory / "ctr", "runc")
    docker, containerd = Docker(directory / "docker"), Containerd(directory / "ctr")
    try:
        found = [*by_docker(docker), *by_ctr(containerd, vendor)]
        for low_level in filter(shutil.which, ("runc", "crun")):
            found += by_command(directory / low_level, low_level, vendor)
        yield found
    finally:
        containerd.close()
        docker.close()


def main() -> None:
    """Measure and print; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nvidia-runtime", type=Path, default=shutil.which("nvidia-container-runtime"))
    chosen = parser.parse_args()
    vendor = Path(chosen.nvidia_runtime) if chosen.nvidia_runtime else None
    order = random.Random(22)  # noqa: S311, no secret
    with (
        tempfile.TemporaryDirectory(prefix="cgpu-life-") as name,
        wrapper_server(),
        all_lives(Path(name), vendor) as found,
    ):
        for number in range(chosen.rounds + FIRST_ROUNDS):
            for life in order.sample(found, len(found)):
                life.measure(counts=number >= FIRST_ROUNDS)
        raise SystemExit(not report(found))


if __name__ == "__main__":
    main()
