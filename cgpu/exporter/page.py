# SPDX-License-Identifier: Apache-2.0
"""The page /metrics, in whichever format the scraper asks for."""

from __future__ import annotations

import threading

from prometheus_client.exposition import choose_encoder

from cgpu.errors import CgpuError
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.text import encode
from cgpu.page_server import Page


class MetricsPage:
    """Metrics of a collector. Any thread may call it."""

    def __init__(self, collector: TreeCollector, wait_s: float) -> None:
        """Make the page. wait_s: how long a scrape waits for another one to end."""
        self._collector = collector
        self._wait_s = wait_s
        self._scrape = threading.Lock()

    def __call__(self, accept: str) -> Page:
        """Return the metrics. accept: the header of the request. Raises CgpuError."""
        _, kind = choose_encoder(accept)
        # One at a time: a read of the tree waits while cgpud is started again; others need not.
        if not self._scrape.acquire(timeout=self._wait_s):
            raise CgpuError("the engine's tree does not answer")
        try:
            return Page(encode(self._collector.collect(), kind), kind)
        finally:
            self._scrape.release()
