# SPDX-License-Identifier: Apache-2.0
"""Many calls of the API at once, over connections that stay."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from http.client import HTTPSConnection
from pathlib import Path

from benchmarks.kubernetes.objects import Request

THREADS = 8
TIMEOUT_S = 60


class Loader:
    """Sends requests to an API server."""

    def __init__(self, host: str, token: str, authority: Path) -> None:
        """Call as the owner of a token. authority: the signer of the server's certificate."""
        self._host = host
        self._context = ssl.create_default_context(cafile=str(authority))
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, requests: Iterable[Request]) -> None:
        """Send all; return when each is done. Raises RuntimeError at the first that is refused."""
        source = _Shared(iter(requests))
        threads = [threading.Thread(target=self._work, args=(source,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if source.fault is not None:
            raise RuntimeError(source.fault)

    def _work(self, source: _Shared) -> None:
        connection = HTTPSConnection(self._host, context=self._context, timeout=TIMEOUT_S)
        try:
            while (request := source.take()) is not None:
                body = json.dumps(request.body, separators=(",", ":"))
                connection.request(request.method, request.path, body, self._headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status >= 300:
                    text = said.decode(errors="replace")[:300]
                    source.fail(f"{request.method} {request.path}: {answer.status}: {text}")
        except OSError as error:
            source.fail(f"{self._host}: {error}")
        finally:
            connection.close()


class _Shared:
    """An iterator for several threads, which ends at the first fault of any."""

    def __init__(self, requests: Iterator[Request]) -> None:
        self.fault: str | None = None
        self._requests = requests
        self._lock = threading.Lock()

    def take(self) -> Request | None:
        with self._lock:
            return None if self.fault is not None else next(self._requests, None)

    def fail(self, fault: str) -> None:
        with self._lock:
            self.fault = self.fault or fault
