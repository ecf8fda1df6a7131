# SPDX-License-Identifier: Apache-2.0
"""A scraper of a daemon's metrics, as Prometheus asks for them."""

from __future__ import annotations

import re

from cgpu.client.tree import Tree
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.server import MetricsPage
from cgpu.smi.names import Directory
from tests.daemon.harness import Daemon

COUNTER = re.compile(r"^(\w+_(?:total|bucket|sum|count)(?:{.*})?) (\S+)$", re.MULTILINE)


class Scraper:
    """Scrapes a daemon's tree."""

    def __init__(self, daemon: Daemon) -> None:
        collector = TreeCollector(lambda: Tree(str(daemon.tree)), Directory([]))
        self._page = MetricsPage(collector, 1.0)

    def figure(self, name: str, labels: str = "") -> float:
        """Return the figure whose labels have this text in them."""
        found = re.search(rf"^{name}\b.*{re.escape(labels)}.* (\S+)$", self.page(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def page(self) -> str:
        return self._page("").body.decode()

    def counters(self) -> dict[str, float]:
        """Return what may never go back, by name and labels."""
        return {sample: float(value) for sample, value in COUNTER.findall(self.page())}
