# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of a node with four simulated cards, as a Prometheus stores them: pods come, work and go."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cgpu.client.tree import Tree
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.names import Names
from cgpu.exporter.server import Server
from scripts.pictures.loaded import MIB, cards
from tests.daemon.harness import Daemon, Sliced, long_id
from tests.daemon.upgrades import steady_load
from tests.exporter.monitoring import RULES
from tests.exporter.prometheus import FOLDER, PROGRAMS, unpack
from tests.integration.commands import eventually

SECONDS = 600
INTERVAL_S = 5
EXPORTER = ("127.0.0.1", 19837)
PROMETHEUS = "127.0.0.1:19838"
CONFIG = f"""
global: {{scrape_interval: {INTERVAL_S}s, scrape_timeout: {INTERVAL_S}s, evaluation_interval: {INTERVAL_S}s}}
rule_files: [{RULES.name}]
scrape_configs:
  - job_name: opencgpu
    static_configs: [{{targets: ["{EXPORTER[0]}:{EXPORTER[1]}"], labels: {{instance: gpu-node-1}}}}]
"""
PACKAGES = (
    "prometheus",
    # What its pages are made with.
    "libjs-bootstrap4",
    "libjs-jquery",
    "libjs-popper.js",
    "fonts-glyphicons-halflings",
)
FOR_LONG = ("busy=3600s:1ms",)


@dataclass(frozen=True, slots=True)
class Act:
    """A container with a slice, from a second of the recording until another. Sizes in MiB."""

    name: str
    gpu: int
    size: int
    weight: int
    words: tuple[str, ...]
    begins: int = 0
    ends: int = SECONDS


def half(busy_s: int, idle_s: int) -> tuple[str, ...]:
    """Return the words of a program that computes and pauses by turns."""
    return (f"busy={busy_s}s:1ms", f"hold={idle_s}") * (SECONDS // (busy_s + idle_s) + 1)


GROWS = ("alloc=1500M", "group", "busy=90s:1ms", "alloc=1800M", "busy=90s:1ms", "alloc=1900M", *FOR_LONG)
IS_REFUSED = (*("busy=2s:1ms", "hold=2") * 60, *(*["alloc=3G"] * 3, "hold=10") * 6, *half(2, 2))
BUILDS = ("alloc=700M", "group", "busy=25s:1ms", "hold")
ANNA = "research/notebook-anna-6c9f7d5b48-x2x7q/jupyter"
STORY = (
    Act("research/trainer-0/main", 0, 6144, 4, GROWS),
    Act(ANNA, 0, 2048, 1, ("alloc=640M", "group", *half(20, 60))),
    Act("shop/search-7d9fb4c6d8-kk2lp/web", 0, 3072, 2, ("alloc=2950M", "group", *IS_REFUSED)),
    Act("shop/recommend-5b8c9d7f64-z8q4w/web", 0, 3072, 2, ("alloc=1200M", "group", *FOR_LONG), 150, 450),
    *(
        Act(
            f"vision/detect-{at}/worker",
            1,
            1536,
            1 + at % 3,
            (f"alloc={200 + 150 * at}M", "group", *FOR_LONG),
            20 + 25 * at,
        )
        for at in range(6)
    ),
    Act("vision/label-6f5d9c8b77-p4t9s/worker", 1, 2048, 1, ("alloc=1900M", "group", *half(10, 30))),
    Act("batch/render-28391174-c7wlm/blender", 2, 10240, 1, ("alloc=9500M", "group", *FOR_LONG), 180, 500),
    *(Act(f"ci/build-{at}/test", 2, 1024, 1, BUILDS, at * 140, at * 140 + 50) for at in range(4)),
    Act("research/notebook-li-7c4d6b9f55-m8r2d/jupyter", 3, 4096, 1, ("alloc=900M", "group", *half(35, 25))),
    Act("research/notebook-omar-8587d9c4b6-t5k7n/jupyter", 3, 4096, 1, ("alloc=2100M", "hold")),
)
STEADY = Act("shop/translate-79c8f5b6d4-h6v3x/web", 0, 512, 1, ("20000",), 60)
"""Allocates and frees all the time, on the first card."""


class Stage:
    """Has pods come and go."""

    def __init__(self, daemon: Daemon, names: dict[str, str]) -> None:
        """names: of the containers by their ids, which the exporter asks for."""
        self._daemon = daemon
        self._names = names
        self._running: dict[str, Sliced] = {}

    def begin(self, seed: int, act: Act) -> None:
        """Have a pod start. The last word of the steady one is its own program's."""
        self._names[long_id(seed)] = act.name
        slice_ = f"gpu={act.gpu}:{act.size * MIB}:{act.weight}"
        if act is STEADY:
            started = self._daemon.slice(seed, slice_, *act.words, program=steady_load(), until="steady")
        else:
            started = self._daemon.slice(seed, slice_, f"gpu={act.gpu}", *act.words, until=until(act.words))
        self._running[act.name] = started

    def end(self, act: Act) -> None:
        """Have a pod end, and its container with it."""
        self._running.pop(act.name).kill()

    def play(self) -> None:
        """Do all of it, each at its second."""
        plan: list[tuple[int, Callable[[], object]]] = [(SECONDS, lambda: None)]
        for seed, act in enumerate((*STORY, STEADY), 1):
            plan.append((act.begins, partial(self.begin, seed, act)))
            if act.ends < SECONDS:
                plan.append((act.ends, partial(self.end, act)))
        began = time.monotonic()
        for second, step in sorted(plan, key=lambda one: one[0]):
            time.sleep(max(0.0, began + second - time.monotonic()))
            step()


def until(words: tuple[str, ...]) -> str:
    """Return with what the line begins that a program prints once it works."""
    return "group" if "group" in words else "hold"


@contextmanager
def exporter(daemon: Daemon, names: dict[str, str]) -> Iterator[None]:
    """Serve the node's metrics, with the names of its pods."""
    server = Server(EXPORTER, TreeCollector(lambda: Tree(str(daemon.tree)), Names([lambda: names])))
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    """Have a Prometheus with the data of a folder, and yield where it answers."""
    unpack(PACKAGES)
    (folder / "prometheus.yml").write_text(CONFIG)
    shutil.copy(RULES, folder)
    command = [
        str(PROGRAMS / "prometheus"),
        "--config.file=prometheus.yml",  # its pages show where the rules lie
        f"--storage.tsdb.path={folder}/data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={PROMETHEUS}",
        f"--web.local-assets={FOLDER}/usr/share/prometheus/web/",
        f"--web.user-assets={folder}",
    ]
    with (folder / "prometheus.log").open("w") as log:
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        eventually(is_ready, "Prometheus is ready", 60)
        yield f"http://{PROMETHEUS}"
    finally:
        running.terminate()
        running.wait()


def is_ready() -> bool:
    """Tell whether Prometheus answers."""
    try:
        with urllib.request.urlopen(f"http://{PROMETHEUS}/-/ready", timeout=5):  # our own server
            return True
    except OSError:
        return False


def record(folder: Path) -> None:
    """Have Prometheus store the story in a folder, with the times when it began and ended.

    Beside them: its page of alerts at the end, for Prometheus judges no rule of a time that is past.
    """
    folder.mkdir(parents=True)
    names: dict[str, str] = {}
    with cards() as daemon, exporter(daemon, names), prometheus(folder) as server:
        began = time.time()
        Stage(daemon, names).play()
        with urllib.request.urlopen(f"{server}/classic/alerts", timeout=30) as page:  # noqa: S310 - our own server
            (folder / "alerts.html").write_bytes(page.read())
        (folder / "times.json").write_text(json.dumps([began, time.time()]))
