# SPDX-License-Identifier: Apache-2.0
"""A control plane without nodes: etcd, the API server, and, for the time of a measurement, a scheduler."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kubernetes.load import Loader
from benchmarks.kubernetes.measure import OPEN
from tests.integration.commands import Server
from tests.kubernetes.harness.chart import rendered
from tests.kubernetes.harness.control_plane import api_server, etcd, listens
from tests.kubernetes.harness.credentials import SERVER, Credentials
from tests.kubernetes.harness.settings import Settings

NO_LIMIT = 100_000  # of calls in a second: a scheduler takes no negative number for its burst
# No controller manager makes service accounts, or takes away the taint of a new node.
API_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
ETCD_FLAGS = ("--quota-backend-bytes=8589934592",)


@dataclass(frozen=True, slots=True)
class Qps:
    """Limit on calls in a second by a component's client; None: without a limit."""

    limit: int | None

    @property
    def connection(self) -> dict[str, int]:
        rate = NO_LIMIT if self.limit is None else self.limit
        return {"qps": rate, "burst": 2 * rate}


UNLIMITED = Qps(None)


class Plane:
    """A control plane in a folder."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        """Prepare one."""
        self._settings = settings
        self._folder = folder
        self._credentials = Credentials(folder / "credentials")
        self.components: dict[str, Server] = {}

    @contextmanager
    def running(self) -> Iterator[Loader]:
        """Have etcd and the API server; yield who calls it."""
        try:
            self._start(etcd(self._settings, self._folder, ETCD_FLAGS))
            self._start(api_server(self._settings, self._folder, self._credentials, API_FLAGS))
            with self._credentials.tokens.open() as stream:
                token = next(row[0] for row in csv.reader(stream) if row[1] == "admin")
            yield Loader(SERVER.removeprefix("https://"), token, self._credentials.authority)
        finally:
            self._stop()

    @contextmanager
    def scheduling(self, qps: Qps = UNLIMITED) -> Iterator[None]:
        """Have a scheduler."""
        scheduler = self._scheduler(qps)
        try:
            self._start(scheduler)
            yield
        finally:
            self.components.pop(scheduler.name).stop()

    def _start(self, component: Server) -> None:
        self.components[component.name] = component
        component.start()

    def _stop(self) -> None:
        for component in reversed(self.components.values()):
            component.stop()
        self.components.clear()

    def _scheduler(self, qps: Qps) -> Server:
        kubeconfig = str(self._credentials.path("kube-scheduler"))
        config: dict[str, object] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig, **qps.connection},
            "leaderElection": {"leaderElect": False},
        }
        path = self._folder / "scheduler.json"
        path.write_text(json.dumps(config))
        flags = [f"--config={path}", f"--authorization-always-allow-paths={','.join(OPEN)}"]
        return self._settings.component("kube-scheduler", flags, listens(10259))


def device_class() -> dict[str, object]:
    """Return the device class as the chart has it."""
    return next(one for one in rendered() if one["kind"] == "DeviceClass")


@contextmanager
def plane(programs: Path, version: str, logs: Path) -> Iterator[Plane]:
    """Yield a plane. programs: the folder of Kubernetes' components."""
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-kubernetes-") as place:
        yield Plane(Settings(programs, version, "/", logs), Path(place))
