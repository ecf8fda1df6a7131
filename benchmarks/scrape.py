# SPDX-License-Identifier: Apache-2.0
"""Cost of a scrape of `cgpu exporter`, with cgpud's part: python -m benchmarks.scrape [CARDS] [SLICES].

The programs of all slices compute, so figures change from scrape to scrape. cgpud's part is its thread that
serves the tree: its other threads work for the programs.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cgpu.client.open_entries import OpenEntries
from cgpu.client.stat import parse_engine, parse_gpu
from cgpu.client.tree import Tree
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.names import Names
from cgpu.exporter.page import MetricsPage
from tests.daemon.harness import MIB, Daemon, serving
from tests.exporter.library import written
from tests.integration.commands import eventually

SCRAPES = 300
FIRST_READS = 200
ADDRESS = "127.0.0.1:19839"
NS = 1e9
# The headers of Prometheus 2.42, which keeps its connection.
PROMETHEUS = {
    "User-Agent": "Prometheus/2.42.0",
    "Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "X-Prometheus-Scrape-Timeout-Seconds": "10",
}


def milliseconds(times: list[float]) -> str:
    ordered = sorted(times)
    median, most = statistics.median(times), ordered[int(len(times) * 0.95)]
    return f"{1e3 * median:5.2f} ({1e3 * ordered[0]:.2f} to {1e3 * most:.2f})"


def thread_s(task: Path) -> float:
    """Return the seconds of processor time that a thread has had."""
    return int((task / "schedstat").read_text().split()[0]) / NS


def process_s(pid: int) -> float:
    """Return the seconds of processor time that a process has had, all threads."""
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3)


def tree_thread(daemon: Daemon) -> Path:
    """Return the thread of cgpud that serves the tree: the one that reads keep busy."""
    tree, tasks = Tree(str(daemon.tree)), list(Path(f"/proc/{daemon.pid()}/task").iterdir())
    before = {task: thread_s(task) for task in tasks}
    for _ in range(FIRST_READS):
        tree.read("version")
    return max(tasks, key=lambda task: thread_s(task) - before[task])


def measure(
    name: str, what: Callable[[], object], server: Path, own: Callable[[], float] = time.process_time
) -> None:
    """Print the processor time of each call: its own, cgpud's for it, and both; median, least and 95 %."""
    what()
    mine, theirs = [], []
    for _ in range(SCRAPES):
        begun, served = own(), thread_s(server)
        what()
        mine.append(own() - begun)
        theirs.append(thread_s(server) - served)
    both = [one + other for one, other in zip(mine, theirs, strict=True)]
    print(f"{name:40}", *(f"{milliseconds(times):24}" for times in (mine, theirs, both)), flush=True)


def in_process(daemon: Daemon, cards: int, names: dict[str, str], server: Path) -> None:
    """Measure the steps of a scrape."""
    tree, entries = Tree(str(daemon.tree)), OpenEntries()
    collector = TreeCollector(lambda: tree, Names([lambda: names]))
    page = MetricsPage(collector, 1.0)
    print(f"{cards} cards, {len(names)} slices, {len(page('').body)} bytes; milliseconds of a processor")
    print(f"{'':40}", *(f"{who:24}" for who in ("exporter", "cgpud", "both")))

    def read() -> None:
        parse_engine(entries.read(tree, "stat"))
        for gpu in range(cards):
            parse_gpu(entries.read(tree, str(gpu), "stat"))

    measure("read the tree and parse it", read, server)
    measure("and make metrics of it", collector.collect, server)
    measure("and write them as text", lambda: page(""), server)
    measure("and have the library write them", lambda: written(collector.collect()), server)


def over_http(daemon: Daemon, server: Path) -> None:
    """Measure the command itself, with all that its process does."""
    command = [sys.executable, "-m", "cgpu.main", "exporter", "--listen", ADDRESS, "--tree", str(daemon.tree)]

    client = http.client.HTTPConnection(ADDRESS, timeout=30)

    def scrape() -> int:
        client.request("GET", "/metrics", headers=PROMETHEUS)
        return len(client.getresponse().read())

    def scrape_anew() -> int:
        client.close()
        return scrape()

    def answers() -> bool:
        try:
            return scrape() > 0
        except OSError:
            client.close()
            return False

    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as exporter:
        eventually(answers, "the exporter answers")
        of_exporter = functools.partial(process_s, exporter.pid)
        measure("cgpu exporter, over HTTP", scrape, server, of_exporter)
        measure("the same, a connection each", scrape_anew, server, of_exporter)
        exporter.terminate()


def run(daemon: Daemon, cards: int, slices: int) -> None:
    server = tree_thread(daemon)
    held = [
        daemon.slice(
            number + 1,
            f"gpu={number % cards}:{512 * MIB}",
            *(f"gpu={number % cards}", "alloc=1M", "group", "busy=3600s:1ms"),
            until="group",
        )
        for number in range(slices)
    ]
    in_process(daemon, cards, {one.id: f"prod/trainer-{at}/main" for at, one in enumerate(held)}, server)
    over_http(daemon, server)
    for one in held:
        one.kill()


def main() -> None:
    cards, slices = (int(word) for word in (*sys.argv[1:3], *("1", "20")[len(sys.argv) - 1 :]))
    with contextlib.ExitStack() as stack:
        run(stack.enter_context(serving(Daemon, f"T4:{cards}")), cards, slices)


if __name__ == "__main__":
    main()
