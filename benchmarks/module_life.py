# SPDX-License-Identifier: Apache-2.0
"""What a container's whole life costs with the kernel module, beside NVIDIA's own runtime.

Boots a virtual machine with a fake driver and the module. It is emulated, so all is slower by some factor,
and the ratios count: life.py measures the same with the daemon, on the machine itself. NVIDIA's runtime
(--nvidia-runtime, or on PATH) does what it does there. Needs root and what `scripts/bootstrap test` installs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from benchmarks.life import CARD, SLICE, SLICED, VENDOR_CONFIG, WHOLE_CARD, bar, vendor_files
from tests.integration.images import ROOT
from tests.integration.runtimes import LAUNCHER
from tests.vm.harness.bundles import Containers
from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, unload_driver, unload_engine

PLAIN = "runc"
FOLDER = "/run/cgpu-lives"
NODES = {"deviceNodes": [{"path": f"/dev/{name}"} for name in ("nvidia0", "nvidiactl", "nvidia-uvm")]}


def lives(containers: Containers, vendor: Path | None) -> dict[str, dict[str, object]]:
    """Return the lives by their names."""
    runc = shutil.which("runc") or "/usr/sbin/runc"

    environment = {VENDOR_CONFIG: f"{FOLDER}/config.toml"}

    def life(runtime: str, env: dict[str, str], *, server: bool = True) -> dict[str, object]:
        spec = containers.spec(["/bin/busybox", "true"], env)
        return {"runtime": runtime, "spec": spec, "environment": environment, "server": server}

    found = {
        PLAIN: life(runc, {}),
        "the wrapper, no slice": life(str(LAUNCHER), {}),
        SLICED: life(str(LAUNCHER), SLICE),
        "a slice, no server": life(str(LAUNCHER), SLICE, server=False),
    }
    if vendor is not None:
        found["NVIDIA's runtime, no card"] = life(str(vendor), {})
        found[WHOLE_CARD] = life(str(vendor), CARD)
    return found


def measure(machine: Machine, vendor: Path | None, rounds: int) -> dict[str, list[float]]:
    """Run the lives in a machine; return milliseconds by name."""
    load_driver(machine)
    load_engine(machine)
    containers = Containers(machine)
    job = {"rounds": rounds, "folder": FOLDER, "package": str(ROOT), "lives": lives(containers, vendor)}
    machine.run(["/bin/mkdir", FOLDER])
    for name, text in vendor_files(vendor, FOLDER, "runc", NODES).items() if vendor is not None else ():
        machine.write_file(f"{FOLDER}/{name}", text)
    machine.write_file("/run/lives.json", json.dumps(job))
    inside = machine.seen(ROOT / "benchmarks" / "lives_inside.py")
    done = machine.run(["/usr/bin/python3", "-IS", inside, "/run/lives.json"], timeout=3000)
    unload_engine(machine)
    unload_driver(machine)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(times: dict[str, list[float]]) -> None:
    """Print medians, what each adds to runc alone, and the bar."""
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        added = "" if name == PLAIN else f"  +{value - median[PLAIN]:6.1f} ms ({value / median[PLAIN]:.2f}x)"
        print(f"{name:28} {value:8.1f} ms{added}")
    if WHOLE_CARD in median:
        print(bar(median[SLICED] - median[PLAIN], median[WHOLE_CARD] - median[PLAIN]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--nvidia-runtime", type=Path, default=shutil.which("nvidia-container-runtime"))
    options = parser.parse_args()
    vendor = Path(options.nvidia_runtime) if options.nvidia_runtime is not None else None
    with (
        tempfile.TemporaryDirectory(prefix="cgpu-lives-") as directory,
        Machine(choose_kernel(), Path(directory)) as machine,
    ):
        machine.wait_ready()
        report(measure(machine, vendor, options.rounds))


if __name__ == "__main__":
    main()
