# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/dashboard-dark.png, dashboard-light.png and alerts.png: ten minutes of simulated cards.

usage: python -m scripts.pictures.dashboard [OUTDIR [WIDTH]]

Grafana's own component libraries draw the panels, in a Chromium without a window; its server is not needed.
The alerts are Prometheus' own page, with what fires opened.
Needs root, npm, and Debian's packages chromium-headless-shell and pngquant. What npm fetches, and the ten
minutes, lie in kmod/build/dashboard: remove `recorded` there to record them anew.
"""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from scripts.pictures.recording import INTERVAL_S, prometheus, record
from tests.exporter.monitoring import dashboard

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("grafana")
BUILD = ROOT / "kmod" / "build" / "dashboard"
RECORDED = BUILD / "recorded"
BROWSER, SMALLER = "chromium-headless-shell", "pngquant"
MODES = ("dark", "light")
WIDTH = 1280
ALERTS_HEIGHT = 2050
ROW, GAP = 30, 8
"""Pixels of a unit of height, and between two panels, as in Grafana."""
PAGE = """<!DOCTYPE html><meta charset="utf-8"><link rel="stylesheet" href="drawn.css">
<body style="margin: 0"><div id="page"></div>
<script>window.INPUT = {}</script><script src="drawn.js"></script>
"""


def build() -> None:
    """Have what draws the panels."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "draw.jsx"):
        shutil.copy(SOURCE / name, BUILD)
    # Some of what the libraries need names an older React; scripts of packages are not run.
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
    subprocess.run(install, cwd=BUILD, check=True, stdout=subprocess.DEVNULL)
    icons = BUILD / "public" / "build" / "img"
    icons.parent.mkdir(parents=True, exist_ok=True)
    if not icons.exists():
        icons.symlink_to(BUILD / "node_modules" / "@grafana" / "ui" / "dist" / "public" / "img")
    bundle = [
        "node_modules/.bin/esbuild",
        "draw.jsx",
        "--bundle",
        "--outfile=drawn.js",
        "--jsx=automatic",
        "--log-level=error",
        '--define:process.env.NODE_ENV="production"',
        *(f"--loader:.{kind}=dataurl" for kind in ("woff", "woff2", "ttf", "svg")),
    ]
    subprocess.run(bundle, cwd=BUILD, check=True)


def ask(server: str, expression: str, times: tuple[int, int]) -> Any:
    """Return the series of a query over the whole time."""
    began, ended = times
    # Of Grafana's, with a panel that has a pixel for each sample or more.
    every = f"{4 * INTERVAL_S}s"
    text = expression.replace("$__rate_interval", every).replace("$__range", f"{ended - began}s")
    for name in ("instance", "gpu", "namespace"):
        text = text.replace(f"${name}", ".*")
    asked = urllib.parse.urlencode({"query": text, "start": began, "end": ended, "step": INTERVAL_S})
    url = f"{server}/api/v1/query_range?{asked}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server
        return json.load(answer)["data"]["result"]


def answers(model: dict[str, Any], times: tuple[int, int]) -> dict[int, list[Any]]:
    """Return the series of each target of each panel, by the panel's number."""
    with prometheus(RECORDED) as server:
        return {
            panel["id"]: [ask(server, target["expr"], times) for target in panel.get("targets", ())]
            for panel in model["panels"]
        }


@contextmanager
def served() -> Iterator[str]:
    """Serve the page's files, and yield where."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    handler = partial(Silent, directory=str(BUILD))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def draw(picture: Path, page: str, width: int, height: int) -> None:
    """Have the browser draw a page, in few enough colours for a repository."""
    command = [
        BROWSER,
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=10000",
        f"--window-size={width},{height}",
        f"--screenshot={picture}",
        page,
    ]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    subprocess.run(
        [SMALLER, "--speed=1", "--strip", "--force", "--ext=.png", "128", str(picture)], check=True
    )


OPENED = """
<script>$(() => $("tr.alert-danger.alert_header, div.show-annotations").click())</script>
"""


def draw_alerts(target: Path, width: int) -> None:
    """Draw the page of alerts that was kept, by Prometheus, which has its styles, scripts and fonts."""
    (RECORDED / "opened.html").write_text((RECORDED / "alerts.html").read_text() + OPENED)
    with prometheus(RECORDED) as server:
        draw(target / "alerts.png", f"{server}/user/opened.html", width, ALERTS_HEIGHT)


def main(target: Path, width: int) -> None:
    """Draw the dashboard in both modes, and the alerts."""
    for program in ("npm", BROWSER, SMALLER):
        if shutil.which(program) is None:
            sys.exit(f"dashboard-pictures: {program} is missing; run: apt-get install {program}")
    build()
    if not (RECORDED / "times.json").exists():
        shutil.rmtree(RECORDED, ignore_errors=True)
        print("dashboard-pictures: recording for ten minutes", flush=True)
        record(RECORDED)
    began, ended = json.loads((RECORDED / "times.json").read_text())
    times = (round(began), round(ended))
    model = dashboard()
    given = {"dashboard": model, "answers": answers(model, times)}
    given |= {"from": times[0], "to": times[1], "step": INTERVAL_S}
    bottom = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in model["panels"])
    with served() as server:
        for mode in MODES:
            page = PAGE.format(json.dumps(given | {"mode": mode, "width": width}))
            (BUILD / f"{mode}.html").write_text(page)
            picture = target / f"dashboard-{mode}.png"
            draw(picture, f"{server}/{mode}.html", width, bottom * (ROW + GAP) + GAP)
    draw_alerts(target, width)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images",
        int(sys.argv[2]) if len(sys.argv) > 2 else WIDTH,
    )
