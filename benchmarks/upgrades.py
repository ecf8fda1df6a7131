# SPDX-License-Identifier: Apache-2.0
"""How long containers' calls wait while cgpud is upgraded, and while it is stopped and started; in turns.

Needs root; starts a daemon of its own with four simulated cards. Containers allocate and free 1 MiB for ever.
--busy: so many processes that take all processor time they can get. A sample is the longest call of one
container in a turn; "own pause" is what cgpud says itself, median and maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.store.notify_socket import START, order
from tests.daemon.harness import MIB, Daemon
from tests.daemon.upgrades import Steady, upgrade

CARDS = 4
BEFORE_S, AFTER_S = 1.0, 0.7
POLL_S = 0.0005
BUSY = ("/usr/bin/python3", "-c", "while True: pass")


def restart(daemon: Daemon) -> None:
    """Stop the daemon and have its keeper start it at once, as systemctl restart does."""
    places = Places(daemon.run)
    said = control.ask(str(places.control), {"command": "status"})
    assert said is not None
    control.ask(str(places.control), {"command": "stop"})
    start = f"{START}={json.dumps(said['arguments'])}"
    while not (line := order(places.keeper, start)):
        time.sleep(POLL_S)
    assert line == "ready", line


class Figures:
    """Figures of one way."""

    def __init__(self) -> None:
        self.waits_ms: list[float] = []
        self.pauses_ms: list[float] = []
        self.failed = 0

    def show(self, name: str) -> None:
        """Print median, 99th percentile and maximum."""
        waits, pauses = sorted(self.waits_ms), self.pauses_ms or [0.0]
        print(
            f"{name:12} median {statistics.median(waits):7.1f}  99th {waits[int(len(waits) * 0.99)]:7.1f}  "
            f"max {waits[-1]:7.1f}  own pause {statistics.median(pauses):6.1f} {max(pauses):6.1f}  "
            f"failed {self.failed}"
        )


def serve_like_a_driver(daemon: Daemon) -> None:
    """Give the cards' server real-time priority: a driver needs no thread of its own to get a processor."""
    server = json.loads((daemon.run / "sim.json").read_text())["pid"]
    for tid in os.listdir(f"/proc/{server}/task"):
        os.sched_setscheduler(int(tid), os.SCHED_RR, os.sched_param(1))


def turn(load: Sequence[Steady], figures: Figures, act: Callable[[], float | None]) -> None:
    """Act once in the middle of the load."""
    time.sleep(BEFORE_S)
    for one in load:
        one.look()
    pause = act()
    time.sleep(AFTER_S)
    found = [one.look() for one in load]
    assert all(one.calls > 0 for one in found), found
    figures.waits_ms += [one.longest_ms for one in found]
    figures.failed += sum(one.failed for one in found)
    if pause is not None:
        figures.pauses_ms.append(pause)


def measure(containers: int, turns: int, base: Path) -> dict[str, Figures]:
    """Return the figures of each way."""
    daemon = Daemon(base, f"T4:{CARDS}", "max_inst: 25\n")
    ways: dict[str, Callable[[], float | None]] = {
        "nothing": lambda: None,
        "upgrade": lambda: float(upgrade(daemon)["pause_ms"]),
        "stop, start": lambda: restart(daemon),
    }
    figures = {name: Figures() for name in ways}
    every_us = max(1000, 312 * containers)
    try:
        serve_like_a_driver(daemon)
        load = [
            Steady(daemon, 10 + n, f"gpu={n % CARDS}:{64 * MIB}", every_us, n % CARDS)
            for n in range(containers)
        ]
        for _ in range(turns):
            for name, act in ways.items():
                turn(load, figures[name], act)
    finally:
        daemon.close()
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", type=int, default=16, help="at most 100")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--busy", type=int, default=0, help="processes that take all they can get")
    options = parser.parse_args()
    busy = [subprocess.Popen(BUSY) for _ in range(options.busy)]
    try:
        with tempfile.TemporaryDirectory(prefix="cgpud-") as base:
            figures = measure(options.containers, options.turns, Path(base))
    finally:
        for one in busy:
            one.kill()
    print(f"{options.containers} containers, {options.busy} busy, load average {os.getloadavg()[0]:.1f}, ms")
    for name, found in figures.items():
        found.show(name)


if __name__ == "__main__":
    main()
