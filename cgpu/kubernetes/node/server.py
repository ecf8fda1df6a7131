# SPDX-License-Identifier: Apache-2.0
"""The agent's pages over HTTP.

kube-apiserver hands no name on when it passes a request to a pod. So every client that reaches the port reads
the pages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from cgpu.errors import CgpuError
from cgpu.page_server import Bounds, Pages, PageServer

MOST = 16
DEADLINE_S = 5.0
WAITING = 64


class StatusServer(PageServer):
    """Serves pages of the agent, in a thread, as a context."""

    def __init__(self, address: str, port: int, pages: Pages, log: Callable[[str], None]) -> None:
        """Listen. address: empty for all. Raises CgpuError."""
        bounds = Bounds(MOST, DEADLINE_S, WAITING)
        try:
            super().__init__((address, port), pages, bounds, "opencgpu", lambda text: log(f"status: {text}"))
        except OSError as error:
            place = f"{address or '*'}:{port}"
            raise CgpuError(f"--status-port: {place}: cannot listen there ({error.strerror})") from error
        self._thread = threading.Thread(target=self.serve_forever, daemon=True, name="status")

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Answer no more."""
        self.shutdown()
        self.server_close()
