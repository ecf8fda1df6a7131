# SPDX-License-Identifier: Apache-2.0
"""Cost of a container's whole life with the kernel module, beside NVIDIA's own runtime.

Boots a virtual machine with a fake driver and the module. The machine is emulated, so all is slower by some
factor, and the ratios count: life.py measures the same with the daemon, on the machine itself. NVIDIA's
runtime (--nvidia-runtime, or on PATH) does what it does there. Needs root and what `scripts/bootstrap test`
installs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.life import (
    CARD,
    NO_CARD,
    NO_VENDOR,
    PLAIN,
    SLICE,
    SLICED,
    VENDOR_CONFIG,
    WHOLE_CARD,
    bar_of,
    beside_no_card,
    failed,
    vendor_files,
)
from tests.integration.images import ROOT
from tests.integration.runtimes import LAUNCHER
from tests.vm.harness.bundles import Containers
from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, unload_driver, unload_engine

FOLDER = "/run/cgpu-lives"
NODES = {"deviceNodes": [{"path": f"/dev/{name}"} for name in ("nvidia0", "nvidiactl", "nvidia-uvm")]}
SETTINGS = "/run/cgpu/config.json"
LOW_LEVELS = ("runc", "crun")


def lives(
    containers: Containers, low_level: str, vendor: Path | None, program: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield lives of a program by their names."""
    plain = shutil.which(low_level) or low_level

    def life(runtime: str, env: Mapping[str, str], *, server: bool = True) -> dict[str, Any]:
        spec = containers.spec(program, env)
        # Under crun NVIDIA's hooks write to the root file system after it was made read-only.
        spec["root"]["readonly"] = False
        environment = {VENDOR_CONFIG: f"{FOLDER}/config.toml"}
        return {"runtime": runtime, "spec": spec, "environment": environment, "server": server}

    yield PLAIN, life(plain, {})
    yield "the wrapper, no slice", life(str(LAUNCHER), {})
    yield SLICED, life(str(LAUNCHER), SLICE)
    yield "a slice, no server", life(str(LAUNCHER), SLICE, server=False)
    if vendor is not None:
        yield NO_CARD, life(str(vendor), {})
        yield WHOLE_CARD, life(str(vendor), CARD)


def measure(
    machine: Machine, low_level: str, vendor: Path | None, rounds: int, moment: Path | None = None
) -> dict[str, list[Any]]:
    """Run the lives of a low-level runtime in a machine; return milliseconds by name.

    moment: a program that prints its moment; then milliseconds are those of each part of a life.
    """
    containers = Containers(machine)
    program = ["/bin/busybox", "true"]
    if moment is not None:
        machine.shell(f"cp {machine.seen(moment)} {containers.rootfs}/moment")
        program = ["/moment"]
    machine.shell(f"mkdir -p {FOLDER}/{low_level} {Path(SETTINGS).parent}")
    machine.write_file(SETTINGS, json.dumps({"low_level_runtime": shutil.which(low_level)}))
    for name, text in vendor_files(vendor, FOLDER, low_level, NODES).items() if vendor is not None else ():
        machine.write_file(f"{FOLDER}/{name}", text)
    job = {
        "rounds": rounds,
        "moments": moment is not None,
        "folder": f"{FOLDER}/{low_level}",
        "package": str(ROOT),
        "lives": dict(lives(containers, low_level, vendor, program)),
    }
    machine.write_file("/run/lives.json", json.dumps(job))
    inside = machine.seen(ROOT / "benchmarks" / "lives_inside.py")
    done = machine.run(["/usr/bin/python3", "-IS", inside, "/run/lives.json"], timeout=3000)
    found: dict[str, list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(way: str, times: Mapping[str, list[float]]) -> list[str]:
    """Print medians, each life's addition to the plain one, and the bar. Return the bar if it fails."""
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        added = "" if name == PLAIN else f"  +{value - median[PLAIN]:6.1f} ms ({value / median[PLAIN]:.2f}x)"
        print(f"{f'{way}: {name}':34} {value:8.1f} ms{added}")
    if WHOLE_CARD not in median:
        return []
    said = [f"{way}: {one}" for one in (bar_of(median), *beside_no_card(median))]
    print("\n".join(said))
    return failed(said)


@contextmanager
def loaded_machine() -> Iterator[Machine]:
    """Run a virtual machine with the fake driver and the module."""
    with (
        tempfile.TemporaryDirectory(prefix="cgpu-lives-") as directory,
        Machine(choose_kernel(), Path(directory)) as machine,
    ):
        machine.wait_ready()
        load_driver(machine)
        load_engine(machine)
        yield machine
        unload_engine(machine)
        unload_driver(machine)


def main() -> None:
    """Measure and print; exit with 1 where a bar is missed, or is due and could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nvidia-runtime", type=Path, default=shutil.which("nvidia-container-runtime"))
    options = parser.parse_args()
    vendor = Path(options.nvidia_runtime) if options.nvidia_runtime is not None else None
    if vendor is None:
        print(NO_VENDOR)
    bars = []
    with loaded_machine() as machine:
        for low_level in filter(shutil.which, LOW_LEVELS):
            bars += report(low_level, measure(machine, low_level, vendor, options.rounds))
    raise SystemExit(1 if bars else 0)


if __name__ == "__main__":
    main()
