# SPDX-License-Identifier: Apache-2.0
"""Longest wait of a container's call while one cgpud follows another, in each upgrade.

Needs root; starts a daemon of its own with simulated cards. Containers allocate and free 1 MiB without an
end, and three more hold memory. --busy: so many processes that take all processor time they can get.
"no upgrade" is the longest call in a second without one, "own pause" what cgpud says itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.daemon.harness import MIB, Daemon
from tests.daemon.upgrades import Steady, upgrade

HOLD = 3
ROUND_S = 1.0
EVERY_US = {2: 1000}  # a few containers have a call each millisecond, many share the processors
MANY_US = 5000
BUSY = ("/usr/bin/python3", "-c", "while True: pass")


def measure(containers: int, upgrades: int, base: Path) -> list[tuple[float, float, float]]:
    """Return the longest call and the daemon's own pause, in milliseconds, for each upgrade."""
    daemon = Daemon(base, "T4:2", "max_inst: 25\n")
    figures: list[tuple[float, float, float]] = []
    try:
        for n in range(HOLD):
            daemon.slice(1 + n, f"gpu=1:{512 * MIB}", "gpu=1", "alloc=256M", "hold").line("alloc")
        every = EVERY_US.get(containers - HOLD, MANY_US)
        load = [Steady(daemon, 10 + n, f"gpu=0:{64 * MIB}", every) for n in range(containers - HOLD)]
        for _ in range(upgrades):
            time.sleep(ROUND_S)
            without = max(one.look().longest_ms for one in load)
            result = upgrade(daemon)
            time.sleep(ROUND_S / 2)
            found = [one.look() for one in load]
            assert all(one.failed == 0 and one.calls > 0 for one in found), found
            figures.append((without, max(one.longest_ms for one in found), float(result["pause_ms"])))
            print("  ".join(f"{one:.1f}" for one in figures[-1]), flush=True)
    finally:
        daemon.close()
    return figures


def show(name: str, figures: Sequence[float]) -> None:
    """Print median and worst."""
    print(f"{name:12} median {statistics.median(figures):7.1f} ms, worst {max(figures):7.1f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", type=int, default=5, help="with the three that hold memory")
    parser.add_argument("--upgrades", type=int, default=20)
    parser.add_argument("--busy", type=int, default=0, help="processes that take all they can get")
    options = parser.parse_args()
    busy = [subprocess.Popen(BUSY) for _ in range(options.busy)]
    try:
        with tempfile.TemporaryDirectory(prefix="cgpud-") as base:
            figures = measure(options.containers, options.upgrades, Path(base))
    finally:
        for one in busy:
            one.kill()
    print(f"{options.containers} containers, {options.busy} busy, load average {os.getloadavg()[0]:.1f}")
    for name, found in zip(
        ("no upgrade", "an upgrade", "own pause"), zip(*figures, strict=True), strict=True
    ):
        show(name, found)


if __name__ == "__main__":
    main()
