# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus and promtool with the exporter, beside cgpud: make test-metrics."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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
def sliced(daemon: Daemon) -> Sliced:
    """Have a slice that holds memory, and was refused some."""
    return daemon.slice(1, f"gpu=0:{2 * GIB}", "alloc=3G", "alloc=100M:64k", "hold", until="hold")


@pytest.fixture(scope="module")
def port(daemon: Daemon, sliced: Sliced) -> Iterator[int]:
    command = [*EXPORTER, "--listen", "127.0.0.1:0", "--tree", str(daemon.tree)]
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


def test_promtool_has_no_complaint(daemon: Daemon, sliced: Sliced) -> None:
    """Names, types and helps are as Prometheus' own linter wants them."""
    command = [*EXPORTER, "--once", "--tree", str(daemon.tree)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "opencgpu_slice_memory_used_bytes{" in text
    done = subprocess.run(
        [PROGRAMS / "promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_rules() -> None:
    """Promtool takes the alerts, and they say what is expected of made-up figures."""
    figures = Path(__file__).with_name("rules_test.yaml")
    for what, file in (("check", RULES), ("test", figures)):
        command = [str(PROGRAMS / "promtool"), what, "rules", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", queries())
def test_each_panel_has_data(prometheus: str, name: str) -> None:
    """Each query of the dashboard finds the cards and slices; queries for more than 0 find these 0."""
    text = queries()[name].removesuffix(" > 0")
    eventually(lambda: query(prometheus, text) != [], f"{name}: {text}", 30)
