# SPDX-License-Identifier: Apache-2.0
"""The pages of the exporter: metrics of the engine, and whether the exporter runs."""

from __future__ import annotations

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.log import failed
from cgpu.exporter.page import MetricsPage
from cgpu.page_server import Bounds, Page, Pages, PageServer

CONNECTIONS = 8
REQUEST_S = 5.0  # for a whole request, and for its answer
ROOT = b"OpenCGPU exporter: /metrics, /healthz\n"


class Server(PageServer):
    """Serves /metrics of a collector."""

    def __init__(self, address: tuple[str, int], collector: TreeCollector) -> None:
        """Listen. Raises CgpuError when the address cannot be had."""
        metrics = MetricsPage(collector, wait_s=REQUEST_S / 2)
        pages: Pages = {"/": lambda _: Page(ROOT), "/healthz": lambda _: Page(b"ok\n"), "/metrics": metrics}
        bounds = Bounds(CONNECTIONS, REQUEST_S, waiting=CONNECTIONS)
        try:
            super().__init__(address, pages, bounds, f"opencgpu-exporter/{__version__}", failed)
        except OSError as error:
            raise CgpuError(
                f"{address[0]}:{address[1]}: cannot listen ({error.strerror}); another: --listen ADDRESS:PORT"
            ) from error
