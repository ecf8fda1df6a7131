# SPDX-License-Identifier: Apache-2.0
"""Pods with claims, the agent of the node, and the node's files of claims."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim, ResourceSlice

from cgpu import paths
from cgpu.client.tree import Tree
from tests.integration.commands import Server, eventually
from tests.integration.engine import MIB, TREE
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.node import PROBE_IMAGE

WAIT = ["/busybox", "sh", "-c", "trap exit TERM; while :; do /busybox sleep 0.1; done"]
AGENT = (sys.executable, "-m", "cgpu.main", "kubernetes", "node")
REGISTERED = "the kubelet knows this driver"
CDI = Path(paths.CDI_DEVICES).parent
PLACES = (Path(paths.SHARES), Path("/var/lib/kubelet/plugins/gpu.opencgpu.io/claims"))
# The kubelet tries a pod again after fifteen seconds at the latest, and a container after some more.
AGAIN_S = 120


def container(name: str = "main", command: Sequence[str] = WAIT, **fields: Any) -> dict[str, Any]:
    """Return a pod's container with the probe; it waits unless told otherwise."""
    return {"name": name, "image": PROBE_IMAGE, "command": list(command), **fields}


def request(memory: str, name: str = "gpu", **fields: Any) -> dict[str, Any]:
    """Return a claim's request for so much of a GPU."""
    capacity = {"requests": {"memory": memory}}
    return {"name": name, "exactly": {"deviceClassName": "gpu.opencgpu.io", "capacity": capacity, **fields}}


def by_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of a pod that waits, and asks by resource names."""
    containers = [container(resources={"limits": dict(limits)})]
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": containers}


@dataclass
class Pods:
    """A namespace of a cluster, and pods with claims there."""

    cluster: Cluster
    namespace: str

    def claim(self, name: str, memory: str, count: int = 1) -> None:
        spec = {"devices": {"requests": [request(memory, count=count)]}}
        self.make("ResourceClaim", name, spec, "resource.k8s.io/v1")

    def pod(self, name: str, using: Mapping[str, Sequence[str]], **spec: Any) -> None:
        """Make a pod that waits. using: by container, the claims that it uses, which the pod names alike."""
        claims = sorted({claim for used in using.values() for claim in used})
        listed = [
            container(one, resources={"claims": [{"name": claim} for claim in used]})
            for one, used in using.items()
        ]
        whole = {
            "runtimeClassName": "cgpu",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": listed,
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
            **spec,
        }
        self.make("Pod", name, whole)

    def make(self, kind: str, name: str, spec: Mapping[str, Any], version: str = "v1") -> None:
        document = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
        self.cluster.apply(document, self.namespace)

    def one(self, name: str, memory: str, **spec: Any) -> None:
        self.claim(name, memory)
        self.pod(name, {"main": [name]}, **spec)
        self.running(name)

    def running(self, name: str, deadline: float = 60) -> None:
        self.cluster.await_pod(name, self.namespace, "Running", deadline=deadline)

    def seen(self, name: str, container: str = "main") -> list[tuple[str, int]]:
        """Return UUID and MiB of each card that a container sees."""
        words = ("gpu=0", "info", "gpu=1", "info")
        said = self.cluster.exec(name, self.namespace, "/cgpu-probe", *words, container=container)
        found = [line.split() for line in said.stdout.splitlines() if "uuid=" in line]
        cards = [dict(word.split("=", 1) for word in line if "=" in word) for line in found]
        return [(one["uuid"], int(one["total"]) // MIB) for one in cards if one["uuid"]]

    def shares_of(self, name: str) -> list[tuple[str, str]]:
        status = self.cluster.api.get(ResourceClaim, name, namespace=self.namespace).status
        assert status is not None
        assert status.allocation is not None
        assert status.allocation.devices is not None
        return [(str(one.shareID), one.device) for one in status.allocation.devices.results or ()]

    def events_say(self, name: str, text: str) -> None:
        eventually(
            lambda: any(text in event for event in self.cluster.events(name, self.namespace)),
            f"the events of {name} say: {text}",
            60,
        )


@dataclass
class Slices(Pods):
    agent: Server
    arguments: Sequence[str]  # of the agent

    def stepped(self, number: int, sent: signal.Signals, trace: Path) -> Server:
        """Have in place of the agent one that gets a signal at its change of that number; return it."""
        self.agent.stop()
        words = [str(number), sent.name, str(trace)]
        command = [sys.executable, "-m", "tests.kubernetes.harness.stepped_agent", *words, *self.arguments]
        return self.cluster.start("stepped-agent", command, ready=registers(self._fresh("stepped-agent")))

    def _fresh(self, name: str) -> Path:
        log = self.cluster.settings.logs / f"{name}.log"
        log.unlink(missing_ok=True)
        return log


def reserved() -> list[tuple[str, int, str]]:
    """Return all reservations of the engine: share, MiB, and the container that uses it."""
    tree = Tree(str(TREE))
    return [
        (one.share, one.slice.memsize // MIB, one.container or "-")
        for gpu in tree.gpus()
        for one in tree.reserved(gpu.index)
    ]


def left() -> list[str]:
    # Beside the files themselves, those that were never put in place.
    files = [str(path) for place in PLACES for name in ("*.json", ".*") for path in place.glob(name)]
    described = [str(path) for name in ("opencgpu-share-*", ".opencgpu-share-*") for path in CDI.glob(name)]
    return [*files, *described, *(share for share, _, _ in reserved())]


def registers(log: Path) -> Callable[[], bool]:
    """Return the question whether the kubelet knows the agent, asked anew after each start of it."""
    known = 0

    def ask() -> bool:
        nonlocal known
        now = log.read_text().count(REGISTERED) if log.exists() else 0
        known, before = max(known, now), known
        return now > before

    return ask


@contextmanager
def with_agent(
    cluster: Cluster,
    namespace: str,
    *,
    publishes: bool = True,
    options: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Iterator[Slices]:
    """Yield a cluster whose node has an agent; afterwards nothing of any claim is left on the node.

    publishes: whether to wait for the GPUs. options: of helm for the chart; words: of the agent.
    """
    chart.install(cluster, options)
    if "admission.enabled=false" not in options:
        chart.remove_webhooks(cluster)
    config = cluster.service_account("cgpu-node", chart.NAMESPACE, NODE)
    arguments = ["--node", NODE, "--kubeconfig", str(config), *words]
    log = cluster.settings.logs / "agent.log"
    log.unlink(missing_ok=True)
    agent = cluster.start("agent", [*AGENT, *arguments], ready=registers(log))
    if publishes:
        eventually(lambda: list(cluster.api.list(ResourceSlice)) != [], "the node publishes its GPUs", 30)
    yield Slices(cluster, namespace, agent, arguments)
    cluster.api.deletecollection(Pod, namespace=namespace)
    # A pod ends only while its driver is there, also where it has nothing of it.
    eventually(lambda: not list(cluster.api.list(Pod, namespace=namespace)), "the pods are gone", 90)
    eventually(lambda: left() == [], "the node has nothing of claims", 90)
