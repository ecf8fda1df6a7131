# SPDX-License-Identifier: Apache-2.0
"""`kubectl inspect cgpu` as users call it: by kubectl, with their rights, with what an agent says is used."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod, ServiceAccount

from cgpu.kubernetes.names import AGENT_LABELS, STATUS_PORT
from tests.integration.commands import eventually
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.control_plane import NODE_ADDRESS
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.slices import Slices, container, with_agent

PORT = 8080


@pytest.fixture
def slices(cluster: Cluster, namespace: str) -> Iterator[Slices]:
    """Yield a cluster whose agent says what is used.

    The agent is a process of the node; a pod in the node's network has its place for the API server, which
    passes requests for a pod's port on to the pod's address.
    """
    with with_agent(cluster, namespace) as found:
        found.agent.command += ["--status-port", str(PORT), "--status-address", NODE_ADDRESS]
        found.agent.restart()
        spec = {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": [container("node", ports=[{"name": STATUS_PORT, "containerPort": PORT}])],
        }
        metadata = {"name": "agent", "namespace": chart.NAMESPACE, "labels": AGENT_LABELS}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        cluster.await_pod("agent", chart.NAMESPACE, "Running")
        yield found
        cluster.api.delete(Pod, "agent", namespace=chart.NAMESPACE)


@pytest.fixture
def user(cluster: Cluster, namespace: str) -> str:
    """Return the name of a kubeconfig whose owner has no rights yet."""
    cluster.api.create(ServiceAccount(metadata=ObjectMeta(name="user", namespace=namespace)))
    cluster.service_account("user", namespace)
    return f"{namespace}-user"


def bind(cluster: Cluster, namespace: str) -> None:
    """Give the rights that the chart has for users, as docs/kubernetes.md says it."""
    name = f"system:serviceaccount:{namespace}:user"
    for words in (
        ("clusterrolebinding", "user-inspect", "--clusterrole", "cgpu-inspect"),
        ("rolebinding", "user-inspect", "--namespace", chart.NAMESPACE, "--role", "cgpu-inspect"),
    ):
        done = cluster.kubectl("create", *words, "--user", name)
        assert done.returncode == 0, done.text


def row(text: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(f"{NODE} "))


def test_what_is_used(slices: Slices, user: str) -> None:
    """With the chart's rights a user sees what is allocated and what is used, of each GPU and each pod."""
    cluster = slices.cluster
    denied = cluster.kubectl("inspect", "cgpu", user=user)
    assert (denied.returncode, denied.stdout, denied.stderr.count("\n")) == (1, "", 1)
    assert denied.stderr.startswith("kubectl-inspect-cgpu: ")
    assert "forbidden" in denied.stderr
    bind(cluster, slices.namespace)
    slices.claim("six", "6Gi")
    command, claims = ["/cgpu-probe", "alloc=1536M", "hold=600"], {"claims": [{"name": "six"}]}
    uses = container(command=command, resources=claims)
    slices.pod("six", {"main": ["six"]}, containers=[uses])
    slices.running("six")
    eventually(
        lambda: "1.5" in row(cluster.kubectl("inspect", "cgpu", "-o", "wide", user=user).stdout),
        "what is used is seen",
        30,
    )
    wide = cluster.kubectl("inspect", "cgpu", "-o", "wide", user=user)
    assert (wide.returncode, wide.stderr) == (0, "")
    assert row(wide.stdout)[:8] == [NODE, NODE_ADDRESS, "6/15", "1.5", "0/15", "0", "6/30", "1.5"]
    details = cluster.kubectl("inspect", "cgpu", NODE, "--details", "-o", "wide", user=user).stdout
    assert ["six", slices.namespace, "6", "1.5", "0", "0"] in [line.split() for line in details.splitlines()]
    document = json.loads(cluster.kubectl("inspect", "cgpu", "-o", "json", user=user).stdout)
    (share,) = document["nodes"][0]["gpus"][0]["shares"]
    assert (share["mib"], share["of_card"], share["used"]) == (6144, 6043, 1536)


def test_the_plugin_is_found(cluster: Cluster) -> None:
    """kubectl lists the plugin, and passes on what it is told."""
    assert "kubectl-inspect-cgpu" in cluster.kubectl("plugin", "list").stdout
    done = cluster.kubectl("inspect", "cgpu", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "node nowhere publishes no GPU" in done.stderr
