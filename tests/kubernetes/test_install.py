# SPDX-License-Identifier: Apache-2.0
"""The chart in a cluster, by helm and with its image: installed, tried, updated under load, removed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from lightkube import ApiError
from lightkube.models.core_v1 import ContainerStatus
from lightkube.resources.core_v1 import Event, Pod
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice
from prometheus_client.parser import text_string_to_metric_families as parse_text

from cgpu.kmod.daemon.tree.callers import CAP_SYS_ADMIN
from cgpu.kubernetes.names import STATUS_PORT
from tests.exporter.monitoring import RULES, dashboard
from tests.integration.commands import eventually
from tests.integration.probe import NO_MEMORY, step
from tests.kubernetes.harness import chart, release
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.release import NAMESPACE, REPOSITORY, TAGS, Release, name_of, spec_of
from tests.kubernetes.harness.slices import Pods, by_limits, left, reserved

KUBELET = Path("/var/lib/kubelet")
SOCKETS = ("plugins_registry/gpu.opencgpu.io-*reg.sock", "plugins/gpu.opencgpu.io/dra*.sock")
MANY = 100
NOT_PREPARED = "FailedPrepareDynamicResources"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Release]:
    """A release for the tests of this file, which each but the last leave it installed."""
    with release.installed(cluster) as found:
        yield found


@pytest.fixture
def pods(installed: Release, namespace: str) -> Iterator[Pods]:
    """Pods in a namespace of the test. Afterwards the node has nothing of theirs."""
    yield Pods(installed.cluster, namespace)
    installed.cluster.api.deletecollection(Pod, namespace=namespace)
    eventually(lambda: left() == [], "the node has nothing of claims", 60)


def ask(pods: Pods, name: str, gib: int) -> None:
    pods.make("Pod", name, by_limits({"aliyun.com/gpu-mem": gib}))


def agents() -> list[int]:
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if is_agent(path)]


def is_agent(path: Path) -> bool:
    try:
        return b"/usr/bin/cgpu\0kubernetes\0node" in path.read_bytes()
    except OSError:
        return False


def sockets() -> set[str]:
    return {path.name for pattern in SOCKETS for path in KUBELET.glob(pattern)}


def test_parts_run(installed: Release) -> None:
    """The agent has the one capability and the folders that it needs, and admission runs twice."""
    (agent,) = installed.pods("node")
    (container,) = spec_of(agent).containers
    assert container.image == f"{REPOSITORY}:{TAGS[0]}"
    assert "the kubelet knows this driver" in installed.log("node")
    (process,) = agents()
    status = Path(f"/proc/{process}/status").read_text()
    assert f"CapEff:\t{1 << CAP_SYS_ADMIN:016x}\n" in status
    root = Path(f"/proc/{process}") / "root"
    assert sorted(os.listdir(root / "run")) == ["cdi", "cgpu"]
    assert sorted(os.listdir(root / "usr/bin")) == ["cgpu", "cgpu-probe", "python3"]
    serving = installed.pods("admission")
    assert len(serving) == 2
    slices = installed.cluster.api.list(ResourceSlice)
    assert [one.spec.driver for one in slices] == ["gpu.opencgpu.io"]


def test_monitoring(cluster: Cluster) -> None:
    """The chart has the operator's and Grafana's objects, once they are asked for."""
    switches = ("metrics.podMonitor=true", "metrics.rules=true", "metrics.dashboard=true")
    # By names: the webhook's certificate is another one each time.
    without = {(one["kind"], one["metadata"]["name"]) for one in chart.rendered()}
    every = chart.rendered(*switches)
    made = {one["kind"]: one for one in every if (one["kind"], one["metadata"]["name"]) not in without}
    assert made.keys() == {"PodMonitor", "PrometheusRule", "ConfigMap"}
    (endpoint,) = made["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("status", "/metrics")
    assert made["PrometheusRule"]["spec"] == yaml.safe_load(RULES.read_text())
    assert json.loads(made["ConfigMap"]["data"]["opencgpu.json"]) == dashboard()


@pytest.mark.parametrize(
    ("values", "name", "option"),
    [
        ((), "cgpu-admission", "--log-format=text"),
        (("admission.logFormat=json",), "cgpu-admission", "--log-format=json"),
        (("templates.most=100",), "cgpu-admission", "--most=100"),
        (("metrics.dcgm=true",), "cgpu-node", "--dcgm"),
    ],
)
def test_options_of_the_parts(cluster: Cluster, values: tuple[str, ...], name: str, option: str) -> None:
    """The form of the webhook's log, and the metrics' names of DCGM's exporter, are values of the chart."""

    def arguments(*values: str) -> list[str]:
        kinds = ("Deployment", "DaemonSet")
        made = {one["metadata"]["name"]: one for one in chart.rendered(*values) if one["kind"] in kinds}
        return list(made[name]["spec"]["template"]["spec"]["containers"][0]["args"])

    assert option in arguments(*values)
    assert (option in arguments()) == (values == ())


def test_certificate(cluster: Cluster) -> None:
    """The API server trusts the authority that helm has made, of cert-manager's one what that says."""
    own, managed = (
        {one["kind"]: one for one in chart.rendered(*values)}
        for values in ((), ("admission.certManager.enabled=true", "admission.certManager.issuer.name=x"))
    )
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (webhook,) = own[kind]["webhooks"]
        assert webhook["clientConfig"]["caBundle"] == own["Secret"]["data"]["ca.crt"]
        assert "caBundle" not in managed[kind]["webhooks"][0]["clientConfig"]
    assert managed["Certificate"]["spec"]["secretName"] == own["Secret"]["metadata"]["name"]
    assert "Secret" not in managed


def test_who_reaches_the_webhook(cluster: Cluster) -> None:
    """Any caller reaches its port alone, unless the values name callers or an authority of clients.

    So it is with the agents' pages; jobs are not reached, and what calls nobody cannot.
    """

    def made(kind: str, *values: str) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in chart.rendered(*values) if one["kind"] == kind}

    (rule,) = made("NetworkPolicy")["cgpu-admission"]["spec"]["ingress"]
    assert rule == {"ports": [{"protocol": "TCP", "port": "https"}]}
    assert "ingress" not in made("NetworkPolicy")["cgpu-jobs"]["spec"]
    silent = made("NetworkPolicy")["cgpu-silent"]["spec"]
    assert (silent["policyTypes"], "egress" in silent) == (["Ingress", "Egress"], False)
    for value, name in (("from", "cgpu-admission"), ("statusFrom", "cgpu-node")):
        named = f"networkPolicy.{value}[0].ipBlock.cidr=192.0.2.0/28"
        (rule,) = made("NetworkPolicy", named)[name]["spec"]["ingress"]
        assert rule["from"] == [{"ipBlock": {"cidr": "192.0.2.0/28"}}]
    assert "ingress" not in made("NetworkPolicy", "node.statusPort=0")["cgpu-node"]["spec"]
    assert made("NetworkPolicy", "networkPolicy.enabled=false") == {}
    authority = "admission.clientAuthority=-----BEGIN CERTIFICATE-----"
    assert (
        "-----BEGIN CERTIFICATE" in made("ConfigMap", authority)["cgpu-admission-clients"]["data"]["ca.crt"]
    )
    pod = made("Deployment", authority)["cgpu-admission"]["spec"]["template"]["spec"]
    assert "--client-authority=/clients/ca.crt" in pod["containers"][0]["args"]
    assert {"name": "clients", "configMap": {"name": "cgpu-admission-clients"}} in pod["volumes"]


def test_helm_test(installed: Release) -> None:
    """`helm test` starts a pod in a slice, shows what it sees, and leaves nothing."""
    said = installed.must("test")
    assert "Succeeded" in said
    assert f"total={1007 << 20}" in said
    eventually(lambda: left() == [], "the node has nothing of claims", 60)


def test_what_is_used(installed: Release, pods: Pods) -> None:
    """`kubectl inspect cgpu` asks the agent's pod what is used, by the port that the chart gives it."""
    pods.one("two", "2Gi")
    wide = installed.cluster.kubectl("inspect", "cgpu", "--namespace", NAMESPACE, "-o", "wide")
    assert (wide.returncode, wide.stderr) == (0, "")
    assert wide.stdout.splitlines()[1].split()[2:6] == ["2/15", "0", "0/15", "0"]


def test_metrics(installed: Release, pods: Pods) -> None:
    """The page of the agent's pod names a slice by the pod, its namespace and the container that have it."""
    pods.one("two", "2Gi")
    (agent,) = installed.pods("node")
    (container,) = spec_of(agent).containers
    (port,) = (one.containerPort for one in container.ports or () if one.name == STATUS_PORT)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name_of(agent)}:{port}/proxy/metrics"
    page = installed.cluster.kubectl("get", "--raw", path)
    assert page.returncode == 0, page.text
    families = {one.name: one for one in parse_text(page.stdout)}
    (up,) = families["opencgpu_up"].samples
    assert up.value == 1
    samples = families["opencgpu_slice_memory_limit_bytes"].samples
    (found,) = (one for one in samples if one.labels["namespace"] == pods.namespace)
    assert (found.labels["pod"], found.labels["container"]) == ("two", "main")
    assert found.value == 2014 << 20
    assert not [name for name in families if name.startswith("DCGM_")]


def test_the_engine_is_killed(installed: Release, pods: Pods) -> None:
    """The agent's pod reaches the engine that came back, though it sees not where that mounts its tree."""
    pods.one("before", "1Gi")
    engine = installed.cluster.engine
    engine.await_restart(engine.kill())
    pods.one("after", "2Gi")
    assert sorted(size for _, size, _ in reserved()) == [1007, 2014]
    assert [mib for _, mib in pods.seen("before")] == [1007]
    assert [one.restartCount for one in status_of(installed, "node")] == [0]


def status_of(installed: Release, component: str) -> list[ContainerStatus]:
    return [
        one
        for pod in installed.pods(component)
        if pod.status is not None
        for one in pod.status.containerStatuses or ()
    ]


def test_an_agent_is_killed_for_good(installed: Release, pods: Pods) -> None:
    """The agent that takes the place of a killed pod removes the sockets of that one; shares live on."""
    pods.one("kept", "1Gi")
    (agent,) = installed.pods("node")
    before = sockets()
    (process,) = agents()
    os.kill(process, signal.SIGKILL)
    installed.cluster.api.delete(Pod, name_of(agent), namespace=NAMESPACE, grace_period=0)
    eventually(
        lambda: sockets() and not sockets() & before, "its sockets are gone, a new agent has others", 60
    )
    pods.one("later", "2Gi")
    assert [mib for _, mib in pods.seen("kept")] == [1007]


@dataclass
class Load:
    """Makes pods with shares one after the other, and asks the webhook all the time, until the end."""

    pods: Pods
    made: int = 0
    asked: int = 0
    faults: list[str] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.ends.is_set():
            name = f"load-{self.made}"
            try:
                ask(self.pods, name, 1)
                self.pods.running(name)
                self.pods.cluster.delete_pod(name, self.pods.namespace)
            except (ApiError, AssertionError) as error:
                self.faults.append(f"{name}: {error}")
            self.made += 1

    def ask_only(self) -> None:
        """Have the API server call the webhook, for pods that are not made."""
        client = self.pods.cluster.client("admin", self.pods.namespace)
        metadata = {"name": "dry", "namespace": self.pods.namespace}
        asks = {"metadata": metadata, "spec": by_limits({"aliyun.com/gpu-mem": 1})}
        pod = cast("Pod", Pod.from_dict(asks))
        while not self.ends.is_set():
            try:
                client.create(pod, dry_run=True)
            except ApiError as error:
                self.faults.append(str(error))
            self.asked += 1


def test_update_under_load(installed: Release, pods: Pods) -> None:
    """Helm puts a new image in place while pods come and go: none is refused, and no share is lost."""
    pods.one("held", "6Gi")
    held = pods.cluster.pod_status("held", pods.namespace).containerStatuses
    (share,) = reserved()
    load = Load(pods)
    threads = [threading.Thread(target=one) for one in (load.run, load.ask_only)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: load.made > 0, "pods come and go", 60)
        installed.must(
            "upgrade", str(chart.CHART), "--reuse-values", "--wait", "--set", f"image.tag={TAGS[1]}"
        )
        updated = load.made
        eventually(lambda: load.made > updated + 1, "pods come and go afterwards", 60)
    finally:
        load.ends.set()
        for thread in threads:
            thread.join()
    assert load.faults == []
    assert load.asked > MANY
    events = pods.cluster.api.list(Event, namespace=pods.namespace)
    assert [one.message for one in events if one.reason == NOT_PREPARED] == []
    for component, number in (("node", 1), ("admission", 2)):
        images = [spec_of(one).containers[0].image for one in installed.pods(component)]
        assert images == [f"{REPOSITORY}:{TAGS[1]}"] * number
    assert reserved() == [share]
    now = pods.cluster.pod_status("held", pods.namespace).containerStatuses
    assert [one.containerID for one in now or ()] == [one.containerID for one in held or ()]
    assert [mib for _, mib in pods.seen("held")] == [6043]
    eventually(lambda: len(agents()) == 1, "one agent runs", 60)
    assert len(sockets()) == 2


def test_removal(installed: Release, pods: Pods) -> None:
    """helm uninstall is refused while a claim has a part of a GPU; by force the pod runs on in its slice."""
    pods.one("runs", "6Gi")
    refused = installed.helm("uninstall", "--wait")
    assert refused.returncode != 0
    line = f"cgpu kubernetes uninstall: 1 claim has parts of GPUs: {pods.namespace}/runs; end the pods"
    assert line in refused.text
    assert len(agents()) == 1
    installed.must("uninstall", "--no-hooks", "--wait")
    eventually(lambda: agents() == [], "no agent runs", 60)
    over = pods.cluster.exec("runs", pods.namespace, "/cgpu-probe", "alloc=7G")
    assert step(over, "alloc").number("status") == NO_MEMORY
    installed.install()
    pods.cluster.delete_pod("runs", pods.namespace)
    eventually(lambda: left() == [], "what it had is given back", 60)


def test_removal_without_claims(installed: Release, pods: Pods) -> None:
    """helm uninstall without claims leaves nothing, not even admission's templates.

    The last one here, as the release is gone then.
    """
    ask(pods, "goes", 1)
    pods.running("goes")
    pods.cluster.delete_pod("goes", pods.namespace)
    eventually(lambda: left() == [], "the node has nothing of claims", 60)
    assert list(pods.cluster.api.list(ResourceClaimTemplate, namespace=pods.namespace))
    installed.must("uninstall", "--wait")
    eventually(lambda: installed.left() == [], "nothing of the release is left", 60)
    assert list(pods.cluster.api.list(ResourceClaimTemplate, namespace=pods.namespace)) == []
    assert sockets() == set()
    eventually(lambda: list(pods.cluster.api.list(ResourceSlice)) == [], "the node publishes nothing", 90)
