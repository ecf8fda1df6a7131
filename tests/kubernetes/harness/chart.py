# SPDX-License-Identifier: Apache-2.0
"""The Helm chart in the cluster.

In most tests helm renders it, and its programs run as processes of the test: objects that start pods are left
out, and webhooks are called at an address of this machine. Rights, classes, policies and webhooks are the
chart's. release.py has the tests' use of helm itself.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import yaml
from lightkube.resources.admissionregistration_v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from lightkube.types import PatchType

from tests.integration.commands import must
from tests.integration.images import ROOT
from tests.kubernetes.harness import certificates
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.control_plane import is_ready, listens

CHART = ROOT / "install/packaging/kubernetes/chart"
NAMESPACE = "opencgpu"
ADDRESS, PORT = "127.0.0.1", 8443
WEBHOOKS = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
AS_PROCESSES = ("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "PodDisruptionBudget", "Service")


def rendered(*values: str, namespace: str = NAMESPACE, options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the documents that helm makes of the chart. values: such as unit=exact; options: of helm."""
    sets = [word for value in values for word in ("--set", value)]
    made = must(
        ["helm", "template", "opencgpu", CHART, "--namespace", namespace, *sets, *options], timeout=60
    )
    return [one for one in yaml.safe_load_all(made.stdout) if one is not None]


def install(cluster: Cluster, options: Sequence[str] = ()) -> None:
    """Apply the chart. A second time changes nothing but the webhook's certificate."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for one in applied(options):
        cluster.apply(one, None)


def applied(options: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield what is applied, with webhooks that lead to this machine."""
    for one in rendered(options=options):
        if one["kind"] in AS_PROCESSES:
            continue
        for webhook in one.get("webhooks", ()):
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://{ADDRESS}:{PORT}{path}"
        yield one


def remove(cluster: Cluster) -> None:
    """Take away what install() has applied: helm takes over nothing that it has not made."""
    for one in applied():
        cluster.delete(one)


@contextmanager
def with_other_schedulers(cluster: Cluster, options: Sequence[str]) -> Iterator[None]:
    """Have the chart with values for other schedulers; take their policies away again."""
    install(cluster, options)
    yield
    for one in rendered(options=options):
        if one["metadata"]["name"].startswith("cgpu-scheduler-"):
            cluster.delete(one)


def remove_webhooks(cluster: Cluster) -> None:
    """Take the webhooks away: no process serves them after the test."""
    for kind in WEBHOOKS:
        cluster.api.delete(kind, "cgpu-admission")


@contextmanager
def with_admission(cluster: Cluster, *options: str) -> Iterator[None]:
    """Have the webhook for a time; without it no pod that asks would start, so it is taken away again.

    options: of the command.
    """
    install(cluster)
    folder = cluster.settings.logs / "admission"
    folder.mkdir(exist_ok=True)
    _trust(cluster, certificates.make(folder))
    config = cluster.service_account("cgpu-admission", NAMESPACE)
    place = ["--address", ADDRESS, "--port", str(PORT), "--certificate", str(folder), *options]
    command = [sys.executable, "-m", "cgpu.main", "kubernetes", "admission"]
    health = is_ready(f"https://{ADDRESS}:{PORT}/healthz")
    cluster.start("admission", [*command, *place, "--kubeconfig", str(config)], ready=health)
    yield
    remove_webhooks(cluster)


@contextmanager
def with_scheduler(cluster: Cluster) -> Iterator[str]:
    """Have the chart's scheduler beside the cluster's own; yield its name."""
    name = "cgpu-scheduler"
    documents = [
        one for one in rendered("scheduler.enabled=true") if one["metadata"]["name"].startswith(name)
    ]
    ours = [one for one in documents if one["kind"] not in AS_PROCESSES]
    for one in ours:
        cluster.apply(one)
    (configured,) = [one for one in ours if one["kind"] == "ConfigMap"]
    config = yaml.safe_load(configured["data"]["scheduler.yaml"])
    config["clientConnection"]["kubeconfig"] = str(cluster.service_account(name, NAMESPACE))
    path = cluster.settings.logs / "scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    command = [*cluster.settings.program("kube-scheduler"), f"--config={path}", "--secure-port=10260"]
    cluster.start(name, command, ready=listens(10260))
    yield name
    for one in ours:
        cluster.delete(one)


def _trust(cluster: Cluster, authority: bytes) -> None:
    value = base64.b64encode(authority).decode()
    change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": value}]
    for kind in WEBHOOKS:
        cluster.api.patch(kind, "cgpu-admission", change, patch_type=PatchType.JSON)
