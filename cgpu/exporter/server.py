# SPDX-License-Identifier: Apache-2.0
"""The pages of the exporter: metrics of the engine, and whether the exporter runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prometheus_client.exposition import choose_encoder

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.text import encode
from cgpu.page_server import Bounds, Page, Pages, PageServer

CONNECTIONS = 8
REQUEST_S = 5.0  # for a whole request, and for its answer
ROOT = b"OpenCGPU exporter: /metrics, /healthz\n"


class MetricsPage:
    """The page /metrics, in whichever format the scraper asks for. Any thread may call it."""

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


def serve(address: tuple[str, int], collector: TreeCollector, log: Callable[[str], None]) -> PageServer:
    """Return a server of a collector's metrics. Raises CgpuError when the address cannot be had."""
    metrics = MetricsPage(collector, wait_s=REQUEST_S / 2)
    pages: Pages = {"/": lambda _: Page(ROOT), "/healthz": lambda _: Page(b"ok\n"), "/metrics": metrics}
    bounds = Bounds(CONNECTIONS, REQUEST_S, waiting=CONNECTIONS)
    try:
        return PageServer(address, pages, bounds, f"opencgpu-exporter/{__version__}", log)
    except OSError as error:
        raise CgpuError(
            f"{address[0]}:{address[1]}: cannot listen ({error.strerror}); another: --listen ADDRESS:PORT"
        ) from error
