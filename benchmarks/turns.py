# SPDX-License-Identifier: Apache-2.0
"""Cost of turns of GPU time for the daemon: CPU time of its thread with 25 containers on a simulated card.

Needs root; starts a daemon of its own. The simulated driver is another process, whose time is not counted.
The caller's cost to reach it (a FUSE request) is not the daemon's either: beside each measurement another
program makes such calls at the same pace, and "own" is without as much for each such call. "sleeps" is the
kernel's part of it for one sleep before each pair of calls, measured in the same way. Variants take turns;
medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.daemon.harness import BUILD, MIB, ROOT, Daemon
from tests.integration.commands import must

CONTAINERS = 25
WEIGHT, NATIVE = 2, 5
THREAD = "cgpud-turns"
NAMES = ("turns/s", "calls/s", "us/call", "us/sleep", "percent", "own percent", "sleeps")


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the turns thread, and of the whole daemon, since their start."""

    at: float
    thread_ns: int
    turns: int
    calls: int


def run_ns(task: Path) -> int:
    """Return the time that a thread was on a processor."""
    return int((task / "schedstat").read_text().split()[0])


def figures(daemon: Daemon) -> Figures:
    """Read them all."""
    counts = daemon.status()["engine"]
    tasks = Path(f"/proc/{daemon.pid()}/task").iterdir()
    thread = next(task for task in tasks if (task / "comm").read_text().strip() == THREAD)
    # Each container has one channel here, so that a channel is a call.
    return Figures(time.monotonic(), run_ns(thread), int(counts["turns"]), int(counts["gates"]))


def measure(daemon: Daemon, paced: Path, seconds: float) -> dict[str, float]:
    """Return what the thread takes, in percent of one processor, and how often it decides."""
    before = figures(daemon)
    command = [str(paced), str(daemon.run / "sim" / "nvidiactl"), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = figures(daemon)
    call_ns, sleep_ns = (int(word) for word in done.stdout.split())
    wall = after.at - before.at
    turns = after.turns - before.turns
    calls = after.calls - before.calls
    thread = after.thread_ns - before.thread_ns
    own = thread - calls * call_ns
    return {
        "turns/s": turns / wall,
        "calls/s": calls / wall,
        "us/call": call_ns / 1e3,
        "us/sleep": sleep_ns / 1e3,
        "percent": thread / wall / 1e7,
        "own percent": own / wall / 1e7,
        "sleeps": calls / 2 * sleep_ns / wall / 1e7,
    }


def variants(daemon: Daemon, paced: Path, slice_us: int, seconds: float) -> dict[str, dict[str, float]]:
    """Measure turns of one length, and the same containers with none."""
    found = {}
    for name, policy in (("no turns (policy 5)", NATIVE), (f"turns of {slice_us} us", WEIGHT)):
        daemon.write("0/policy", f"{policy}\n")
        time.sleep(0.2)
        found[name] = measure(daemon, paced, seconds)
    return found


def one_round(base: Path, paced: Path, slice_us: int, seconds: float) -> dict[str, dict[str, float]]:
    """Start a daemon and its containers, measure, and end them."""
    daemon = Daemon(base, "T4", f"max_inst: {CONTAINERS}\nslice_us: {slice_us}\n")
    try:
        # A queue of preemptible kernels that outlasts the measurement: the containers need no processor.
        words = ("group", "submit=1024:10ms", "hold")
        hands = [daemon.slice(n, f"gpu=0:{512 * MIB}:1", *words) for n in range(1, CONTAINERS + 1)]
        for hand in hands:
            hand.line("hold")
        return variants(daemon, paced, slice_us, seconds)
    finally:
        daemon.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--slices", type=int, nargs="+", default=[1000, 2000], metavar="US")
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="cgpud-") as name:
        paced = Path(name) / "paced"
        source = ROOT / "benchmarks" / "paced.c"
        must(["gcc", "-O2", f"-I{BUILD / 'gen'}", source, "-o", paced])
        for number in range(options.rounds * len(options.slices)):
            slice_us = options.slices[number % len(options.slices)]
            base = Path(name) / str(number)
            base.mkdir()
            for variant, one in one_round(base, paced, slice_us, options.seconds).items():
                rounds.setdefault(variant, []).append(one)
    print(f"{'':20}" + "".join(f"{name:>13}" for name in NAMES))
    for variant, found in rounds.items():
        medians = [statistics.median(one[name] for one in found) for name in NAMES]
        print(f"{variant:20}" + "".join(f"{one:13.2f}" for one in medians))


if __name__ == "__main__":
    main()
