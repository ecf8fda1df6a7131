# SPDX-License-Identifier: Apache-2.0
"""The cluster is one as others have it: rights, admission, restarts, and processes beside it."""

from __future__ import annotations

import sys
import threading

import pytest
from lightkube import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod, ServiceAccount

from tests.integration.commands import eventually
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.component import listens
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.node import PROBE_IMAGE

RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-nodes}
subjects: [{kind: ServiceAccount, name: reader, namespace: NAMESPACE}]
"""
WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: no-tls}
webhooks:
  - name: no-tls.opencgpu.test
    clientConfig: {url: "https://127.0.0.1:8443/"}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    admissionReviewVersions: [v1]
    sideEffects: None
"""


def waiting_pod(**spec: object) -> dict[str, object]:
    container = {"name": "main", "image": PROBE_IMAGE}
    metadata = {"name": "waits"}
    own = {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own}


def test_accounts_have_the_rights_that_they_are_given(cluster: Cluster, namespace: str) -> None:
    """A ServiceAccount reads what a role of its names, and nothing else."""
    cluster.api.create(ServiceAccount(metadata=ObjectMeta(name="reader", namespace=namespace)))
    cluster.apply(RIGHTS.replace("NAMESPACE", namespace))
    cluster.service_account("reader", namespace)
    client = cluster.client(f"{namespace}-reader", namespace)
    assert client.get(Node, NODE).metadata is not None
    with pytest.raises(ApiError, match="cannot list resource"):
        list(client.list(Pod, namespace=namespace))


def test_pods_reach_the_api(cluster: Cluster, namespace: str) -> None:
    """A pod has an address and its account's token, and reaches the API server by its variables."""
    reach = "/busybox nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null"
    own = "/busybox test -s /var/run/secrets/kubernetes.io/serviceaccount/token"
    container = {
        "name": "main",
        "image": PROBE_IMAGE,
        "command": ["/busybox", "sh", "-c", f"{reach} && {own}"],
    }
    cluster.apply(waiting_pod(restartPolicy="Never", containers=[container]), namespace)
    status = cluster.await_pod("waits", namespace, "Succeeded")
    assert str(status.podIP).startswith("10.244.")


def test_commands_in_pods(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's output and status come back, and one that cannot run is an error; no thread reads here."""
    cluster.apply(waiting_pod(), namespace)
    cluster.await_pod("waits", namespace, "Running")
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    done = cluster.exec("waits", namespace, "/busybox", "sh", "-c", "echo out; echo error >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "error\n" in done.stderr
    assert cluster.exec("waits", namespace, "/busybox", "true", container="main").returncode == 0
    assert started == []
    with pytest.raises(AssertionError, match=r"exec in nowhere: .*not found"):
        cluster.exec("nowhere", namespace, "/busybox", "true")


def test_api_server_calls_a_webhook_of_the_test(cluster: Cluster, namespace: str) -> None:
    """A process that a test starts beside the cluster is where the API server finds a webhook."""
    server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "8443"]
    process = cluster.start("webhook", server, ready=listens(8443))
    cluster.apply(WEBHOOK.replace("NAMESPACE", namespace))
    with pytest.raises(ApiError, match="does not look like a TLS handshake"):
        cluster.apply(waiting_pod(), namespace)
    assert process.runs


@pytest.mark.parametrize("name", ["kubelet", "containerd", "kube-scheduler", "kube-apiserver", "etcd"])
def test_components_come_back(cluster: Cluster, namespace: str, name: str) -> None:
    """A component that is killed starts again, and pods from before run on."""
    cluster.apply(waiting_pod(), namespace)
    before = cluster.await_pod("waits", namespace, "Running")
    cluster.components[name].kill()
    cluster.components[name].start()
    eventually(cluster.is_node_ready, "the node is ready", 60)
    after = cluster.await_pod("waits", namespace, "Running")
    assert [one.containerID for one in after.containerStatuses or ()] == [
        one.containerID for one in before.containerStatuses or ()
    ]
