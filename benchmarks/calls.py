# SPDX-License-Identifier: Apache-2.0
"""Cost of supervision for single system calls, inside a sliced container and inside a plain one.

Needs root and a running engine: `cgpud --simulate T4`. The two containers take turns; the medians over all
turns are printed. `driver-call` in the plain container goes to the simulated card without supervision.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.integration.commands import must
from tests.integration.images import ROOT
from tests.integration.runtimes import Runc

SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
SIMULATED = Path("/run/cgpu/sim")


def plain_spec(runc: Runc, command: list[str]) -> dict[str, object]:
    """A container with the simulated card's nodes and no supervision."""
    spec = runc.spec(command, {})
    mounts = spec["mounts"]
    assert isinstance(mounts, list)
    for node in ("nvidiactl", "nvidia0"):
        if (SIMULATED / node).exists():
            options = ["bind", "rw", "nosuid", "noexec"]
            mounts.append(
                {
                    "destination": f"/dev/{node}",
                    "type": "bind",
                    "source": f"{SIMULATED}/{node}",
                    "options": options,
                }
            )
    return spec


def measure(runc: Runc, spec: dict[str, object], name: str) -> dict[str, int]:
    """Run the program once; return nanoseconds by kind of call."""
    outcome = runc.run_bundle(runc.bundle(spec), name)
    if outcome.returncode != 0:
        raise SystemExit(f"{name}: {outcome.text}")
    return {kind: int(value) for kind, value in (line.split() for line in outcome.stdout.splitlines())}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    times: dict[str, dict[str, list[int]]] = {}
    with tempfile.TemporaryDirectory(prefix="cgpu-calls-") as name:
        runc = Runc(Path(name))
        program = runc.rootfs / "calls"
        include = [f"-I{ROOT / 'kmod' / folder}" for folder in ("build/gen", "probe")]
        must(["gcc", "-static", "-O2", *include, ROOT / "benchmarks" / "calls.c", "-o", program])
        command = ["/calls", str(options.count)]
        for turn in range(options.turns):
            for kind, spec in (("plain", plain_spec(runc, command)), ("sliced", runc.spec(command, SLICE))):
                for call, took in measure(runc, spec, f"{kind}{turn}").items():
                    times.setdefault(call, {}).setdefault(kind, []).append(took)
        runc.close()
    print(f"{'call':18} {'plain ns':>10} {'sliced ns':>10} {'added ns':>10} {'ratio':>7}")
    for call, kinds in times.items():
        plain, sliced = (statistics.median(kinds.get(kind, [0])) for kind in ("plain", "sliced"))
        ratio = f"{sliced / plain:.2f}" if plain else "-"
        print(f"{call:18} {plain:10.0f} {sliced:10.0f} {sliced - plain:10.0f} {ratio:>7}")


if __name__ == "__main__":
    main()
