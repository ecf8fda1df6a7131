# SPDX-License-Identifier: Apache-2.0
"""The HTTP server has bounds, and the command serves what it prints with --once."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.client.tree import Tree
from cgpu.exporter import server
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.main import address, main
from cgpu.smi.names import Directory
from tests.exporter.trees import FakeTree, gpu_line, slice_line

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    made = FakeTree(tmp_path / "tree")
    made.gpu(0, gpu_line("GPU-0"), slice_line("web", used=10))
    return made


@pytest.fixture
def base(tree: FakeTree) -> Iterator[str]:
    running = server.serve(
        ("127.0.0.1", 0), TreeCollector(lambda: Tree(str(tree.path)), Directory([])), print
    )
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()
    thread.join()


def get(url: str, accept: str = "") -> tuple[str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=240) as answer:  # noqa: S310 - our own server
        return answer.read().decode(), answer.headers["Content-Type"]


def test_serves_both_formats(base: str) -> None:
    """Prometheus' text by default, OpenMetrics where it is asked for, and nothing else under other paths."""
    text, kind = get(f"{base}/metrics")
    assert kind.startswith("text/plain")
    assert "opencgpu_up 1.0" in text
    text, kind = get(f"{base}/metrics", OPENMETRICS)
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert get(f"{base}/healthz")[0] == "ok\n"
    assert "/metrics" in get(base + "/")[0]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{base}/other")


@pytest.mark.parametrize("text", ["", "9100", ":9100", "localhost", "h:x", "h:99999", "::1:80", "h:-1"])
def test_addresses(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name, IPv4, or IPv6 in brackets, and a port; anything else is refused with one line."""
    assert address("0.0.0.0:1") == ("0.0.0.0", 1)
    assert address("[::1]:10418") == ("::1", 10418)
    assert address("node:65535") == ("node", 65535)
    with pytest.raises(SystemExit):
        main(["--listen", text])
    assert "expected ADDRESS:PORT" in capsys.readouterr().err


def test_missing_library_is_one_line(tree: FakeTree, tmp_path: Path) -> None:
    """Without prometheus_client the command says what to install."""
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from cgpu.exporter.main import main\n"
        f"sys.exit(main(['--once', '--tree', {str(tree.path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("cgpu exporter: the Python package prometheus_client is missing;")
    assert done.stderr.count("\n") == 1
