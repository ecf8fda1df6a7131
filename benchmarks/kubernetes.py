# SPDX-License-Identifier: Apache-2.0
"""Speed at which Kubernetes places pods on made-up nodes: pods with claims of parts of GPUs, and plain ones.

etcd, the API server and the scheduler are real, without limits on calls in a second. No kubelet runs the
pods, and nodes send no heartbeats: no controller manager is there to miss them. Needs root and the namespaces
of scripts/kubernetes/bench, which `make bench-kubernetes` runs.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import ssl
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

from cgpu.kubernetes.admission.shape import Shape, template
from cgpu.kubernetes.names import DRIVER
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.devices import device
from tests.integration.commands import Server
from tests.kubernetes.harness.chart import rendered
from tests.kubernetes.harness.control_plane import api_server, etcd, listens
from tests.kubernetes.harness.credentials import SERVER, Credentials
from tests.kubernetes.harness.settings import Settings
from tests.kubernetes.programs import cache

VERSION = "1.36"
NODES = (100, 500, 1000, 2500, 5000)
LOGS = Path("reports/bench-kubernetes")
CARDS = 2  # of each node, as T4:2 has them
CORE, RESOURCES = "/api/v1", "/apis/resource.k8s.io/v1"
NAMESPACE = "namespaces/default"
# No controller manager makes service accounts, or takes away the taint of a new node.
API_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
ETCD_FLAGS = ("--quota-backend-bytes=8589934592",)
QPS = {"qps": 100_000, "burst": 200_000}  # a scheduler takes no negative number for its burst
THREADS = 8
# A sample of the scheduler's metrics, which it gives to whoever asks: this program has no account with it.
METRICS = "/metrics"
SCHEDULED = re.compile(
    rb'^scheduler_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)', re.MULTILINE
)
SAMPLE_S = 0.25
FIRST_S = 600.0  # until the scheduler's caches have everything and the first pod is bound

# A path of the API, and the object that is made there.
Made = tuple[str, dict[str, Any]]


def node(number: int) -> Made:
    name = f"node-{number:05}"
    has = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "MadeUp", "message": "nobody is there"}
    return f"{CORE}/nodes", {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": has, "allocatable": has, "conditions": [ready]},
    }


def resource_slice(number: int) -> Made:
    """Return the ResourceSlice of a node, with devices as the agent of a node makes them."""
    name = f"node-{number:05}"
    uuids = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{number}/{index}')}" for index in range(CARDS)]
    cards = [
        Card(index, one, "Tesla T4", 15109, 20, policy=2, reserved=0, mig=False)
        for index, one in enumerate(uuids)
    ]
    return f"{RESOURCES}/resourceslices", {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(card, "card", "cgpud", ()).to_dict() for card in cards],
        },
    }


def claim(name: str) -> Made:
    """Return a claim of 1 GiB."""
    return f"{RESOURCES}/{NAMESPACE}/resourceclaims", {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": template(Shape(mib=1024), ())["spec"],
    }


def pod(name: str, *, claims: bool) -> Made:
    """Return a pod that asks for 1 GiB by a claim of its own name, or for no GPU."""
    resources: dict[str, Any] = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": 0}
    if claims:
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    spec["containers"] = [{"name": "main", "image": "none.example/none:1", "resources": resources}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return f"{CORE}/{NAMESPACE}/pods", body


class Api:
    """An API server, called from several threads over connections that stay."""

    def __init__(self, credentials: Credentials) -> None:
        """Call as the administrator."""
        with credentials.tokens.open() as stream:
            token = next(row[0] for row in csv.reader(stream) if row[1] == "admin")
        self._context = ssl.create_default_context(cafile=str(credentials.authority))
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._own = threading.local()

    def make(self, objects: Iterable[Made]) -> None:
        """Make all objects. Raises RuntimeError for one that is refused."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._post, objects))

    def _post(self, made: Made) -> None:
        path, body = made
        if not hasattr(self._own, "connection"):
            host = SERVER.removeprefix("https://")
            self._own.connection = HTTPSConnection(host, context=self._context, timeout=60)
        self._own.connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._own.connection.getresponse()
        said = answer.read().decode(errors="replace")
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status}: {said[:300]}")


@contextmanager
def served(component: Server) -> Iterator[None]:
    component.start()
    try:
        yield
    finally:
        component.stop()


def scheduler(settings: Settings, folder: Path, credentials: Credentials) -> Server:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(credentials.path("kube-scheduler")), **QPS},
        "leaderElection": {"leaderElect": False},
    }
    (folder / "scheduler.json").write_text(json.dumps(config))
    flags = [f"--config={folder}/scheduler.json", f"--authorization-always-allow-paths={METRICS}"]
    return settings.component("kube-scheduler", flags, listens(10259))


def count_bound() -> int:
    """Return how many pods the scheduler has bound since its start."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    url = f"https://127.0.0.1:10259{METRICS}"
    with urllib.request.urlopen(url, timeout=30, context=context) as answer:
        found = SCHEDULED.search(answer.read())
    return int(float(found[1])) if found else 0


def watch(done: Callable[[int], bool], seconds: float) -> tuple[float, int]:
    """Return when so many pods were bound as are wanted, or the time is over, and how many were."""
    end = time.monotonic() + seconds
    while not done(pods := count_bound()) and time.monotonic() < end:
        time.sleep(SAMPLE_S)
    return time.monotonic(), pods


def measure(folder: Path, nodes: int, pods: int, seconds: float, *, claims: bool) -> float:
    """Return how many pods are placed in a second, on a control plane of its own."""
    settings = Settings(cache() / VERSION, VERSION, "/", LOGS)
    credentials = Credentials(folder / "credentials")
    names = [f"pod-{number:05}" for number in range(pods)]
    with (
        served(etcd(settings, folder, ETCD_FLAGS)),
        served(api_server(settings, folder, credentials, API_FLAGS)),
    ):
        api = Api(credentials)
        api.make(map(node, range(nodes)))
        if claims:
            class_ = next(one for one in rendered() if one["kind"] == "DeviceClass")
            api.make([(f"{RESOURCES}/deviceclasses", class_)])
            api.make(map(resource_slice, range(nodes)))
            api.make(map(claim, names))
        api.make(pod(name, claims=claims) for name in names)
        with served(scheduler(settings, folder, credentials)):
            begun, first = watch(lambda bound: bound > 0, FIRST_S)
            ended, last = watch(lambda bound: bound >= pods, seconds)
    return (last - first) / (ended - begun)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="make bench-kubernetes", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES[-1], help="at most")
    parser.add_argument("--pods", type=int, default=1000, help="that are placed in each measurement")
    parser.add_argument("--seconds", type=float, default=20.0, help="for a measurement, at most")
    chosen = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"Kubernetes {VERSION}\n{'nodes':>6} {'plain pods/s':>13} {'with claims':>12}")
    for nodes in (count for count in NODES if count <= chosen.nodes):
        rates = []
        for claims in (False, True):
            with tempfile.TemporaryDirectory(prefix="bench-kubernetes-") as folder:
                rates.append(measure(Path(folder), nodes, chosen.pods, chosen.seconds, claims=claims))
        print(f"{nodes:6} {rates[0]:13.0f} {rates[1]:12.0f}", flush=True)


if __name__ == "__main__":
    main()
