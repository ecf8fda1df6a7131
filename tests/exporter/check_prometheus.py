# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus and promtool with the exporter, beside cgpud: make test-metrics."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.harness import MIB, Daemon, Sliced, serving
from tests.exporter.monitoring import RULES, queries
from tests.integration.commands import eventually

PROGRAMS = Path(os.environ["CGPU_PROMETHEUS"]).absolute()
EXPORTER = [sys.executable, "-m", "cgpu.main", "exporter"]
GIB = 1024 * MIB
SLICES = 5
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: opencgpu
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with serving(Daemon, "T4:2") as running:
        yield running


@pytest.fixture(scope="module")
def slices(daemon: Daemon) -> list[Sliced]:
    """Have slices that hold memory, each of which was refused some as often as its number says."""
    made = []
    for number in range(1, SLICES + 1):
        words = [*["alloc=3G"] * number, f"alloc={number * 100}M:64k", "hold"]
        made.append(daemon.slice(number, f"gpu=0:{2 * GIB}:{number}", *words, until="hold"))
    return made


@pytest.fixture(scope="module")
def port(daemon: Daemon, slices: list[Sliced]) -> Iterator[int]:
    command = [*EXPORTER, "--listen", "127.0.0.1:0", "--dcgm", "--tree", str(daemon.tree)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            line = running.stderr.readline()
            found = re.search(r":(\d+)/metrics", line)
            assert found is not None, line
            yield int(found[1])
        finally:
            running.terminate()
        assert running.wait(10) == 0


@pytest.fixture(scope="module")
def prometheus(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "prometheus.yml").write_text(CONFIG.format(port=port))
    address = f"127.0.0.1:{port + 1 if port < 65000 else port - 1}"
    command = [
        str(PROGRAMS / "prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    base = f"http://{address}"
    eventually(lambda: query(base, "up") != [], "it scrapes", 60)
    time.sleep(4)
    yield base
    running.terminate()
    running.wait(30)


def query(base: str, text: str) -> list[dict[str, Any]]:
    url = f"{base}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own server
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except OSError:
        return []
    return result


def values(base: str, text: str, label: str) -> dict[str, float]:
    return {one["metric"].get(label, ""): float(one["value"][1]) for one in query(base, text)}


def test_promtool_has_no_complaint(daemon: Daemon, slices: list[Sliced]) -> None:
    """Names, types and helps are as Prometheus' own linter wants them."""
    command = [*EXPORTER, "--once", "--tree", str(daemon.tree)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "opencgpu_slice_memory_used_bytes{" in text
    done = subprocess.run(
        [PROGRAMS / "promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_prometheus_has_the_truth(prometheus: str, daemon: Daemon, slices: list[Sliced]) -> None:
    """What Prometheus stores of each slice is what its program has done."""
    assert values(prometheus, "up", "job") == {"opencgpu": 1}
    ids = [one.id[:12] for one in slices]
    of_slice = {one: number for number, one in enumerate(ids, 1)}
    used = values(prometheus, "opencgpu_slice_memory_used_bytes", "id")
    assert used == {one: number * 100 * MIB for one, number in of_slice.items()}
    refused = values(prometheus, 'opencgpu_slice_memory_refusals_total{reason="limit"}', "id")
    assert refused == dict(of_slice)
    shares = values(prometheus, "opencgpu_slice_share_ratio", "id")
    assert shares == {one: pytest.approx(number / 15) for one, number in of_slice.items()}
    promised = values(prometheus, "opencgpu_gpu_memory_promised_bytes", "gpu")
    assert promised == {"0": SLICES * 2 * GIB, "1": 0}
    assert values(prometheus, "DCGM_FI_DEV_FB_TOTAL", "gpu") == {"0": 15109, "1": 15109}


def test_rules() -> None:
    """Promtool takes the alerts, and they say what is expected of made-up figures."""
    figures = Path(__file__).with_name("rules_test.yaml")
    for what, file in (("check", RULES), ("test", figures)):
        command = [str(PROGRAMS / "promtool"), what, "rules", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", queries())
def test_each_panel_has_data(prometheus: str, name: str) -> None:
    """Each query of the dashboard finds the cards and slices; what shows only more than 0 finds these 0."""
    text = queries()[name].removesuffix(" > 0")
    eventually(lambda: query(prometheus, text) != [], f"{name}: {text}", 30)


def test_counters_survive_kill(prometheus: str, daemon: Daemon) -> None:
    """Counters do not go back when the engine is killed; a scrape may wait for the next one meanwhile."""
    daemon.crash()

    def is_seen() -> bool:
        return values(prometheus, "opencgpu_engine_restarts_total", "job") == {"opencgpu": 1}

    eventually(is_seen, "a scrape tells of the restart", 30)
    for name in ("opencgpu_engine_notifications_total", "opencgpu_slice_memory_refusals_total"):
        assert set(values(prometheus, f"resets({name}[1m])", "id").values()) == {0}
