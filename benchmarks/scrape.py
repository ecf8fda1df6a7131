# SPDX-License-Identifier: Apache-2.0
"""What a scrape of `cgpu exporter` costs beside cgpud: python -m benchmarks.scrape [CARDS] [SLICES]."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from cgpu.client.tree import Tree
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.names import Names
from cgpu.exporter.page import MetricsPage
from tests.daemon.harness import MIB, Daemon, serving

SCRAPES = 300
TICKS = 100


def milliseconds(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"median {1e3 * statistics.median(times):.2f} ms, 95 % {1e3 * ordered[int(len(times) * 0.95)]:.2f} ms"
    )


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time that a process has had, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(what: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Return processor time and elapsed time of each call."""
    used, elapsed = [], []
    for _ in range(SCRAPES):
        cpu, wall = time.process_time(), time.perf_counter()
        what()
        used.append(time.process_time() - cpu)
        elapsed.append(time.perf_counter() - wall)
    return used, elapsed


def run(daemon: Daemon, cards: int, slices: int) -> None:
    held = [
        daemon.slice(number + 1, f"gpu={number % cards}:{512 * MIB}", "alloc=1M", "hold", until="hold")
        for number in range(slices)
    ]
    tree = Tree(str(daemon.tree))
    names = {one.id: f"prod/trainer-{number}/main" for number, one in enumerate(held)}
    registry = CollectorRegistry(auto_describe=False)
    collector = TreeCollector(lambda: tree, Names([lambda: names]))
    registry.register(collector)
    page = MetricsPage(registry, 1.0)
    body = generate_latest(registry)
    print(f"{cards} cards, {slices} slices: {len(body)} bytes, {body.count(b'opencgpu') // 3} lines or so")

    def read() -> None:
        tree.engine_stat()
        for gpu in range(cards):
            tree.gpu_stat(gpu)

    engine = cpu_of(daemon.pid())
    for name, what in (
        ("read and parse the tree", read),
        ("and make metrics of it", collector.collect),
        ("and write them as text", lambda: page("")),
        ("and have the library write them", lambda: generate_latest(registry)),
    ):
        used, elapsed = measure(what)
        print(f"{name}: processor {milliseconds(used)}; elapsed {milliseconds(elapsed)}")
    engine = cpu_of(daemon.pid()) - engine
    print(f"cgpud for each of these: {1e3 * engine / (4 * SCRAPES):.2f} ms of processor time")
    for one in held:
        one.kill()


def main() -> None:
    cards, slices = (int(word) for word in (*sys.argv[1:3], *("1", "20")[len(sys.argv) - 1 :]))
    with contextlib.ExitStack() as stack:
        run(stack.enter_context(serving(Daemon, f"T4:{cards}")), cards, slices)


if __name__ == "__main__":
    main()
