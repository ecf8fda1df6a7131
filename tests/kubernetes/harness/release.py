# SPDX-License-Identifier: Apache-2.0
"""The chart installed by helm as a user does, with the image that is built of this checkout.

The node's engine runs already, so the installer is off, unless a test has it start one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lightkube.core.client import LabelSelector
from lightkube.models.core_v1 import PodSpec
from lightkube.resources.core_v1 import Pod

from tests.integration.commands import Outcome, call, eventually
from tests.kubernetes import images
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import RUNTIME_CLASS, Cluster
from tests.kubernetes.harness.node import load, tag

NAME = "opencgpu"
NAMESPACE = "gpu-system"
REPOSITORY = "opencgpu.test/kubernetes"
TAGS = ("0.1.0", "0.1.1")
HELM_S = 240


@dataclass(frozen=True)
class Release:
    cluster: Cluster
    values: tuple[str, ...] = ("installer.enabled=false",)

    def helm(self, word: str, *words: str) -> Outcome:
        access = {"KUBECONFIG": str(self.cluster.credentials.path("admin"))}
        place = ["--namespace", NAMESPACE, "--timeout", "2m"]
        return call(["helm", word, NAME, *words, *place], access, HELM_S)

    def must(self, word: str, *words: str) -> str:
        done = self.helm(word, *words)
        assert done.returncode == 0, f"helm {word}: {done.text}"
        return done.text

    def install(self) -> None:
        sets = (f"image.repository={REPOSITORY}", f"image.tag={TAGS[0]}", *self.values)
        values = [word for one in sets for word in ("--set", one)]
        self.must("install", str(chart.CHART), "--create-namespace", "--wait", *values)

    def pods(self, component: str) -> list[Pod]:
        labels: LabelSelector = {"app.kubernetes.io/component": component}
        found = self.cluster.api.list(Pod, namespace=NAMESPACE, labels=labels)
        return [one for one in found if one.metadata is not None and one.metadata.deletionTimestamp is None]

    def log(self, component: str) -> str:
        return "".join(self.cluster.log(name_of(one), NAMESPACE) for one in self.pods(component))

    def left(self) -> list[str]:
        """Return what the release has in its namespace and what it has made for the whole cluster."""
        made = [one for one in chart.rendered(namespace=NAMESPACE) if self.cluster.exists(one)]
        pods = self.cluster.api.list(Pod, namespace=NAMESPACE)
        return [*(f"{one['kind']} {one['metadata']['name']}" for one in made), *map(name_of, pods)]


def name_of(pod: Pod) -> str:
    assert pod.metadata is not None
    return str(pod.metadata.name)


def spec_of(pod: Pod) -> PodSpec:
    assert pod.spec is not None
    return pod.spec


@contextmanager
def installed(cluster: Cluster, *values: str) -> Iterator[Release]:
    """Yield a release that is installed. Afterwards the cluster is as other tests expect it."""
    load(images.image())
    for one in TAGS:
        tag(f"{REPOSITORY}:{one}", images.NAME)
    chart.remove(cluster)
    found = Release(cluster, values) if values else Release(cluster)
    try:
        found.install()
        yield found
    finally:
        found.helm("uninstall", "--no-hooks", "--wait", "--ignore-not-found")
        eventually(lambda: found.left() == [], "the release is gone", 60)
        cluster.apply(RUNTIME_CLASS)
