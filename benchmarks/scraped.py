# SPDX-License-Identifier: Apache-2.0
"""A Prometheus scrapes a loaded node for minutes: python -m benchmarks.scraped [SECONDS].

Debian's Prometheus, `cgpu exporter`, and cgpud with four simulated cards and 20 slices of each: the programs
of the first card's allocate and free, those of the others hold memory. At the end ten scrapes a second come
and go by turns, and the engine says how long calls took it. Takes root, and 19 MB from Debian's archive the
first time.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import psutil

from cgpu.client.stat import parse_engine
from cgpu.client.tree import Tree
from tests.daemon.harness import MIB, Daemon, serving
from tests.daemon.upgrades import Steady
from tests.exporter.prometheus import PROGRAMS, unpack
from tests.integration.commands import eventually

CARDS = 4
OF_EACH = 20
CALL_US = 20_000  # between two calls of one program
INTERVAL_S = 5
TURNS = 10
TURN_S = 3.0
SCRAPES_A_TURN = 30
EXPORTER = "127.0.0.1:19835"
PROMETHEUS = "127.0.0.1:19836"
CONFIG = f"""
global: {{scrape_interval: {INTERVAL_S}s, scrape_timeout: {INTERVAL_S}s}}
scrape_configs: [{{job_name: opencgpu, static_configs: [{{targets: ["{EXPORTER}"]}}]}}]
"""


def query(text: str) -> float:
    """Return the one value of a query. Raises ValueError where there is not exactly one, OSError."""
    url = f"http://{PROMETHEUS}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # our own server
        (found,) = json.load(answer)["data"]["result"]
    return float(found["value"][1])


def is_scraped() -> bool:
    try:
        return query("up") == 1
    except (OSError, ValueError):
        return False


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def start(stack: ExitStack, command: list[str], log: Path) -> psutil.Process:
    """Start a server that ends with the stack."""
    output = stack.enter_context(log.open("w"))
    running = subprocess.Popen(command, stdout=output, stderr=output)
    stack.callback(running.wait)
    stack.callback(running.terminate)
    return psutil.Process(running.pid)


def load(daemon: Daemon) -> None:
    """Fill the cards with slices."""
    for number in range(OF_EACH):
        Steady(daemon, number + 1, f"gpu=0:{512 * MIB}", CALL_US)
    for number in range(OF_EACH, CARDS * OF_EACH):
        gpu = number // OF_EACH
        words = (f"gpu={gpu}", f"alloc={number}M", "hold")
        daemon.slice(number + 1, f"gpu={gpu}:{512 * MIB}", *words, until="hold")


def scrape() -> bytes:
    with urllib.request.urlopen(f"http://{EXPORTER}/metrics", timeout=30) as answer:  # our own server
        page: bytes = answer.read()
        return page


def call_us(tree: Tree, scrapes: int) -> float:
    """Return how long a call took the engine, in the mean of a few seconds with that many scrapes."""

    def total() -> tuple[int, int]:
        latencies = parse_engine(tree.read("stat")).latencies.values()
        return sum(one.ns for one in latencies), sum(sum(one.calls) for one in latencies)

    until, (ns, calls) = time.monotonic() + TURN_S, total()
    for left in range(scrapes, 0, -1):
        scrape()
        time.sleep(max(0.0, (until - time.monotonic()) / left))
    time.sleep(max(0.0, until - time.monotonic()))
    now_ns, now_calls = total()
    return (now_ns - ns) / (now_calls - calls) / 1e3


def report_calls(tree: Tree) -> None:
    """Print how long calls took without scrapes and with ten a second, by turns."""
    times: dict[int, list[float]] = {0: [], SCRAPES_A_TURN: []}
    for _ in range(TURNS):
        for scrapes, found in times.items():
            found.append(call_us(tree, scrapes))
    for scrapes, found in times.items():
        ordered = sorted(found)
        print(
            f"a call, with {scrapes / TURN_S:.0f} scrapes a second: {statistics.median(ordered):.1f} us "
            f"({ordered[0]:.1f} to {ordered[-1]:.1f})"
        )


def report(processes: dict[str, psutil.Process], seconds: float) -> None:
    """Let the time pass, and print each process's cost, and Prometheus' figures."""
    time.sleep(2 * INTERVAL_S)
    before = {name: (cpu_s(one), one.memory_info().rss) for name, one in processes.items()}
    time.sleep(seconds)
    window = f"[{int(seconds)}s]"
    scrapes = query(f"count_over_time(up{window})")
    print(f"{CARDS} cards, {CARDS * OF_EACH} slices, {seconds:.0f} s, {scrapes:.0f} scrapes")
    for name, one in processes.items():
        cpu, rss = before[name]
        each = 1e3 * (cpu_s(one) - cpu) / scrapes
        print(f"{name}: {each:.1f} ms of processor time for a scrape, resident MiB", end=" ")
        print(f"{rss / MIB:.0f} before, {one.memory_info().rss / MIB:.0f} after")
    print(f"scrapes that failed: {scrapes - query(f'sum_over_time(up{window})'):.0f}")
    for function in ("avg", "max"):
        took = 1e3 * query(f"{function}_over_time(scrape_duration_seconds{window})")
        print(f"time that a scrape took, {function}: {took:.0f} ms")
    print(f"samples in a scrape: {query(f'max_over_time(scrape_samples_scraped{window})'):.0f}")
    page = scrape()
    print(f"size of the answer: {len(page) / 1024:.0f} KiB")
    calls = query(f"sum(increase(opencgpu_engine_calls_total{window}))")
    counters = sorted(set(re.findall(rb"^(opencgpu_\w+_total)\W", page, re.MULTILINE)))
    backwards = sum(query(f"sum(resets({name.decode()}{window}))") for name in counters)
    print(f"calls that the engine answered: {calls / seconds:.0f} in a second")
    print(f"of {len(counters)} names of counters went back: {backwards:.0f}")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    unpack()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        daemon = stack.enter_context(serving(Daemon, f"T4:{CARDS}"))
        load(daemon)
        (folder / "prometheus.yml").write_text(CONFIG)
        command = [
            sys.executable,
            "-m",
            "cgpu.main",
            "exporter",
            "--listen",
            EXPORTER,
            "--tree",
            str(daemon.tree),
        ]
        exporter = start(stack, command, folder / "exporter.log")
        command = [
            str(PROGRAMS / "prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={PROMETHEUS}",
        ]
        server = start(stack, command, folder / "prometheus.log")
        eventually(is_scraped, "Prometheus scrapes the exporter", 60)
        engine = psutil.Process(daemon.pid())
        report({"cgpu exporter": exporter, "cgpud, with all calls": engine, "Prometheus": server}, seconds)
        server.terminate()
        report_calls(Tree(str(daemon.tree)))


if __name__ == "__main__":
    main()
