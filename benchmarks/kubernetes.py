# SPDX-License-Identifier: Apache-2.0
"""What kube-scheduler needs to place pods with claims of parts of GPUs, and plain ones, on made-up nodes.

etcd, the API server and the scheduler are real: the scheduler as it comes, or with the chart's configuration.
It runs before the pods come, and has placed some: one that starts with pods waiting tries them anew for each
claim that it then sees. No kubelet runs the pods, and nodes send no heartbeats, which no controller manager
misses. Needs root and the namespaces of scripts/kubernetes/bench, which `make bench-kubernetes` runs.
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
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import psutil
import yaml

from cgpu.kubernetes.admission.shape import REQUEST, Shape, template
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
WARM = 30  # pods that are placed before those that count
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
SAMPLE_S = 2.0  # each reading of the metrics costs the scheduler some milliseconds
FIRST_S = 600.0  # until the scheduler's caches have everything and the first pods are bound

# A path of the API, and the object that is made there.
Made = tuple[str, dict[str, Any]]
Chosen = tuple[dict[str, Any], dict[str, str]]  # keys of the scheduler's configuration, and its environment


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


def uuid_of(number: int, index: int) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{number}/{index}')}"


def resource_slice(number: int) -> Made:
    """Return the ResourceSlice of a node, with devices as the agent of a node makes them."""
    name = f"node-{number:05}"
    cards = [
        Card(index, uuid_of(number, index), "Tesla T4", 15109, 20, policy=2, reserved=0, mig=False)
        for index in range(CARDS)
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


def allocation(number: int, nodes: int) -> dict[str, Any]:
    """Return the status of a claim that was given 1 GiB, of all cards of all nodes one after the other."""
    place, index = number // CARDS % nodes, number % CARDS
    result = {
        "request": REQUEST,
        "driver": DRIVER,
        "pool": f"node-{place:05}",
        "device": uuid_of(place, index).lower(),
        "shareID": str(uuid.uuid4()),
        "consumedCapacity": {"memory": "1Gi", "weight": "1"},
    }
    return {"allocation": {"devices": {"results": [result]}}}


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

    def give(self, claims: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Make claims of these names and states."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._give, claims))

    def _give(self, named: tuple[str, dict[str, Any]]) -> None:
        path, body = claim(named[0])
        kept = self._call("POST", path, body)
        self._call("PUT", f"{path}/{named[0]}/status", {**kept, "status": named[1]})

    def _post(self, made: Made) -> None:
        self._call("POST", *made)

    def _call(self, verb: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if not hasattr(self._own, "connection"):
            host = SERVER.removeprefix("https://")
            self._own.connection = HTTPSConnection(host, context=self._context, timeout=60)
        self._own.connection.request(verb, path, json.dumps(body), self._headers)
        answer = self._own.connection.getresponse()
        said = answer.read().decode(errors="replace")
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status}: {said[:300]}")
        return dict(json.loads(said))


@contextmanager
def served(component: Server) -> Iterator[None]:
    component.start()
    try:
        yield
    finally:
        component.stop()


def chart_choice() -> Chosen:
    """Return configuration and environment of the chart's scheduler, but for its limit of memory."""
    documents = rendered("scheduler.enabled=true")
    (found,) = [one for one in documents if "scheduler.yaml" in one.get("data", ())]
    chosen: dict[str, Any] = yaml.safe_load(found["data"]["scheduler.yaml"])
    made = next(one for one in documents if "--config=/configuration/scheduler.yaml" in str(one.get("spec")))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    del chosen["profiles"]
    return chosen, {one["name"]: one["value"] for one in container["env"] if "value" in one}


def scheduler(settings: Settings, folder: Path, credentials: Credentials, chosen: Chosen) -> Server:
    limits = chosen[0].get("clientConnection", QPS)
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **chosen[0],
        "clientConnection": {"kubeconfig": str(credentials.path("kube-scheduler")), **limits},
        "leaderElection": {"leaderElect": False},
    }
    (folder / "scheduler.json").write_text(json.dumps(config))
    flags = [f"--config={folder}/scheduler.json", f"--authorization-always-allow-paths={METRICS}"]
    return settings.component("kube-scheduler", flags, listens(10259), chosen[1])


def count_bound() -> int:
    """Return how many pods the scheduler has bound since its start."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    url = f"https://127.0.0.1:10259{METRICS}"
    with urllib.request.urlopen(url, timeout=30, context=context) as answer:
        found = SCHEDULED.search(answer.read())
    return int(float(found[1])) if found else 0


def await_bound(number: int, seconds: float) -> int:
    """Wait until so many pods were bound, or the time is over; return how many were."""
    end = time.monotonic() + seconds
    while (bound := count_bound()) < number and time.monotonic() < end:
        time.sleep(SAMPLE_S)
    return bound


@dataclass(frozen=True)
class Case:
    """given: claims that have parts already."""

    nodes: int
    claims: bool
    given: int
    chosen: Chosen


def measure(folder: Path, case: Case, pods: int, seconds: float) -> str:
    """Return the scheduler's processor time for a pod, and the rate, on a control plane of its own."""
    settings = Settings(cache() / VERSION, VERSION, "/", LOGS)
    credentials = Credentials(folder / "credentials")
    with (
        served(etcd(settings, folder, ETCD_FLAGS)),
        served(api_server(settings, folder, credentials, API_FLAGS)),
    ):
        api = Api(credentials)
        api.make(map(node, range(case.nodes)))
        if case.claims:
            class_ = next(one for one in rendered() if one["kind"] == "DeviceClass")
            api.make([(f"{RESOURCES}/deviceclasses", class_)])
            api.make(map(resource_slice, range(case.nodes)))
            api.give((f"given-{number}", allocation(number, case.nodes)) for number in range(case.given))
        component = scheduler(settings, folder, credentials, case.chosen)
        with served(component):
            make_pods(api, "warm", WARM, claims=case.claims)
            warm = await_bound(WARM, FIRST_S)
            process = psutil.Process(component.pid)
            before, began = sum(process.cpu_times()[:2]), time.monotonic()
            make_pods(api, "pod", pods, claims=case.claims)
            bound = await_bound(warm + pods, seconds) - warm
            spent, passed = sum(process.cpu_times()[:2]) - before, time.monotonic() - began
    return f"{1000 * spent / bound:8.1f} ms {bound / passed:5.0f}/s"


def make_pods(api: Api, prefix: str, number: int, *, claims: bool) -> None:
    names = [f"{prefix}-{one:05}" for one in range(number)]
    if claims:
        api.make(map(claim, names))
    api.make(pod(name, claims=claims) for name in names)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="make bench-kubernetes", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    parser.add_argument("--given", type=int, nargs="+", default=[0, 5000], help="claims with parts")
    parser.add_argument("--pods", type=int, default=500, help="that are placed in each measurement")
    parser.add_argument("--seconds", type=float, default=120.0, help="for a measurement, at most")
    chosen = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"Kubernetes {VERSION}: processor time of kube-scheduler for a pod, and pods in a second")
    print(f"{'nodes':>6} {'claims':>7} {'plain pods':>18} {'with claims':>18} {'as the chart sets':>18}")
    ours = chart_choice()
    for nodes in chosen.nodes:
        for given in chosen.given:
            cells = []
            for claims, choice in ((False, ({}, {})), (True, ({}, {})), (True, ours)):
                with tempfile.TemporaryDirectory(prefix="bench-kubernetes-") as folder:
                    case = Case(nodes, claims, given if claims else 0, choice)
                    cells.append(measure(Path(folder), case, chosen.pods, chosen.seconds))
            print(f"{nodes:6} {given:7} {' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
