# SPDX-License-Identifier: Apache-2.0
"""Cost of a container's whole life with the kernel module, beside NVIDIA's own runtime.

Boots a virtual machine with a fake driver and the module. The machine is emulated, so all is slower by some
factor, and the ratios count: life.py measures the same with the daemon, on the machine itself. NVIDIA's
runtime (--nvidia-runtime, or on PATH) does what it does there. Needs root and what `scripts/bootstrap test`
installs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.life import (
    CARD,
    LOW_LEVELS,
    NO_CARD,
    PLAIN,
    SLICE,
    SLICED,
    VENDOR_CONFIG,
    WHOLE_CARD,
    options,
    report,
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


def lives(
    containers: Containers, low_level: str, vendor: Path | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield lives of a program that ends at once, by their names."""
    plain = shutil.which(low_level) or low_level

    def life(runtime: str, env: Mapping[str, str], *, server: bool = True) -> dict[str, Any]:
        spec = containers.spec(["/bin/busybox", "true"], env)
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


def measure(machine: Machine, low_level: str, vendor: Path | None, rounds: int) -> dict[str, list[float]]:
    """Run the lives of a low-level runtime in a machine; return milliseconds by name."""
    containers = Containers(machine)
    machine.shell(f"mkdir -p {FOLDER}/{low_level} {Path(SETTINGS).parent}")
    machine.write_file(SETTINGS, json.dumps({"low_level_runtime": shutil.which(low_level)}))
    for name, text in vendor_files(vendor, FOLDER, low_level, NODES).items() if vendor is not None else ():
        machine.write_file(f"{FOLDER}/{name}", text)
    job = {
        "rounds": rounds,
        "folder": f"{FOLDER}/{low_level}",
        "package": str(ROOT),
        "lives": dict(lives(containers, low_level, vendor)),
    }
    machine.write_file("/run/lives.json", json.dumps(job))
    inside = machine.seen(ROOT / "benchmarks" / "lives_inside.py")
    done = machine.run(["/usr/bin/python3", "-IS", inside, "/run/lives.json"], timeout=3000)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


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
    rounds, vendor = options(__doc__)
    measured: dict[tuple[str, str], list[float]] = {}
    with loaded_machine() as machine:
        for low_level in filter(shutil.which, LOW_LEVELS):
            for name, times in measure(machine, low_level, vendor, rounds).items():
                measured[low_level, name] = times
    raise SystemExit(1 if report(measured) else 0)


if __name__ == "__main__":
    main()
