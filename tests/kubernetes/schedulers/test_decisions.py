# SPDX-License-Identifier: Apache-2.0
"""Pods for which HAMi's scheduler decides, by the annotations that its account writes before it binds them.

The test writes and binds in its place, as that account; the chart's policy, the agent and the node are real.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.resources.core_v1 import Node, Pod

from cgpu import paths
from cgpu.client.tree import Tree
from cgpu.kubernetes.names import SCHEDULER_LABEL
from cgpu.kubernetes.node.decided import SYSTEMS
from tests.integration.commands import Outcome, call, eventually
from tests.integration.engine import TREE
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.counts import count
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.slices import AGAIN_S, Slices, container, reserved, with_agent

ACCOUNT = "system:serviceaccount:kube-system:hami-scheduler"
NAME = "hami-scheduler"
AGENT_ROLE = ("ClusterRole", "cgpu-node")
POLICY = "ValidatingAdmissionPolicy"
JUDGE_ONLY = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
ALLOCATED = "hami.io/vgpu-devices-allocated"
PODS = count(16, 50)
MOST = 25  # pods of a card


class Hami(Slices):
    """A node whose pods HAMi's scheduler places."""

    folder: Path

    def as_scheduler(self, *words: str) -> Outcome:
        return self.cluster.kubectl(
            *words, "--namespace", self.namespace, "--as", ACCOUNT, "--as-group", "system:masters"
        )

    def theirs(self, name: str, env: Mapping[str, str], count: int = 1, **spec: Any) -> None:
        """Make a pod that waits for HAMi's scheduler; env: what device plugin, image or user have set."""
        variables = [{"name": key, "value": value} for key, value in env.items()]
        listed = [container(f"c{number}", env=variables) for number in range(count)]
        whole = {"schedulerName": NAME, "restartPolicy": "Always", **spec}
        self.pod(name, {}, containers=listed, **whole)

    def has_started(self, name: str) -> bool:
        """Return whether the only container runs: the pod is called Running also while it is tried again."""
        statuses = self.cluster.pod_status(name, self.namespace).containerStatuses or ()
        return any(one.state is not None and one.state.running is not None for one in statuses)

    def decide(self, name: str, *entries: str, node: str = NODE) -> None:
        """Write what each container has: UUID,NVIDIA,MiB,cores: or nothing."""
        text = "".join(f"{entry};" for entry in entries)
        words = [f"{ALLOCATED}={text}", f"hami.io/vgpu-node={node}"]
        done = self.as_scheduler("annotate", "pod", name, *words)
        assert done.returncode == 0, done.text

    def bind(self, name: str, annotations: Mapping[str, str] | None = None, *, by: str = ACCOUNT) -> Outcome:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        metadata = {"name": name, "annotations": dict(annotations or {})}
        path = self.folder / "binding.json"
        path.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
        )
        place = f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding"
        who = ("--as", by, "--as-group", "system:masters")
        return self.cluster.kubectl("create", "--raw", place, "-f", str(path), *who)

    def place(self, name: str, *entries: str) -> None:
        self.decide(name, *entries)
        done = self.bind(name)
        assert done.returncode == 0, done.text


@pytest.fixture
def hami(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Hami]:
    options = values_of(tmp_path, {"hami": ACCOUNT}, "admission.enabled=false")
    with chart.with_other_schedulers(cluster, options), hami_node(cluster, namespace, options) as found:
        found.folder = tmp_path
        yield found


@contextmanager
def hami_node(cluster: Cluster, namespace: str, options: Sequence[str]) -> Iterator[Hami]:
    """Yield the node with HAMi's label and our agent; afterwards its containers wait no more."""
    label(cluster, "hami")
    words = ("--scheduler", f"hami={NAME}")
    try:
        with with_agent(cluster, namespace, publishes=False, options=options, words=words) as found:
            eventually(Path(paths.SHARES, "pods").is_dir, "containers wait for the agent")
            yield Hami(found.cluster, found.namespace, found.agent, found.arguments)
        label(cluster, None)
        eventually(lambda: not Path(paths.SHARES, "pods").exists(), "containers wait no more", 90)
    finally:
        label(cluster, None)


def label(cluster: Cluster, system: str | None) -> None:
    cluster.api.patch(Node, NODE, {"metadata": {"labels": {SCHEDULER_LABEL: system}}})


def uuids() -> list[str]:
    return [gpu.uuid for gpu in Tree(str(TREE)).gpus()]


def values_of(folder: Path, systems: Mapping[str, str], *sets: str) -> list[str]:
    """Return helm's options for these systems, each with the account of its scheduler."""
    path = folder / f"{'-'.join(systems)}.yaml"
    chosen = {name: {"schedulerName": NAME, "accounts": [account]} for name, account in systems.items()}
    path.write_text(yaml.safe_dump({"schedulers": chosen}))
    return ["--values", str(path), *(word for one in sets for word in ("--set", one))]


def test_the_policies(cluster: Cluster, tmp_path: Path) -> None:
    """The API server takes a policy for each system, of just those annotations that the agent reads.

    Without a system the chart gives agents no further right; with one it wants no webhook for the same names.
    """
    options = values_of(tmp_path, dict.fromkeys(SYSTEMS, ACCOUNT), "admission.enabled=false")
    documents = [one for one in chart.rendered(options=options) if one["kind"].startswith(POLICY)]
    policies = {one["metadata"]["name"]: one for one in documents if one["kind"] == POLICY}
    for name, system in SYSTEMS.items():
        (rule,) = policies[f"cgpu-scheduler-{name}"]["spec"]["validations"]
        keys = json.loads(rule["expression"].partition(".all(")[0])
        assert set(keys) == {*system.keys, *filter(None, [system.node])}
    path = tmp_path / "policies.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    judged = cluster.kubectl("apply", *JUDGE_ONLY, "-f", str(path))
    assert judged.returncode == 0, judged.text
    (role,) = [one for one in chart.rendered() if (one["kind"], one["metadata"]["name"]) == AGENT_ROLE]
    assert [rule["verbs"] for rule in role["rules"] if "pods" in rule["resources"]] == [["get"]]
    for refused, said in (
        (values_of(tmp_path, {"hami": ACCOUNT}), "set admission.enabled=false"),
        (values_of(tmp_path, {"kai": ACCOUNT}, "admission.enabled=false"), "propertyName 'kai'"),
    ):
        done = call(["helm", "template", "opencgpu", chart.CHART, *refused])
        assert done.returncode != 0
        assert said in done.text


def test_only_the_scheduler_decides(hami: Hami) -> None:
    """Nobody else writes its annotations: not at once, not later, not by a status or a binding."""
    said = f"only {ACCOUNT} may write annotations by which the scheduler of hami decides"
    hami.theirs("pod", {})
    value = f"{uuids()[0]},NVIDIA,3000,0:;"
    patch = json.dumps({"metadata": {"annotations": {ALLOCATED: value}}})
    place = ("--namespace", hami.namespace)
    for words in (
        ("annotate", "pod", "pod", f"{ALLOCATED}={value}"),
        ("annotate", "pod", "pod", f"hami.io/vgpu-node={NODE}"),
        ("patch", "pod", "pod", "--type=merge", "--patch", patch),
        ("patch", "pod", "pod", "--subresource=status", "--type=merge", "--patch", patch),
        ("run", "forged", "--image=x", f"--annotations={ALLOCATED}={value}"),
    ):
        done = hami.cluster.kubectl(*words, *place)
        assert done.returncode != 0
        assert said in done.text
    done = hami.bind("pod", {ALLOCATED: value}, by="someone")
    assert said in done.text
    hami.decide("pod", f"{uuids()[0]},NVIDIA,3000,0:")
    for change in (f"{ALLOCATED}-", f"{ALLOCATED}={value.replace('3000', '9000')}"):
        done = hami.cluster.kubectl("annotate", "pod", "pod", change, "--overwrite", *place)
        assert said in done.text
    found = hami.cluster.api.get(Pod, "pod", namespace=hami.namespace)
    assert found.metadata is not None
    assert (found.metadata.annotations or {})[ALLOCATED] == value
    done = hami.cluster.kubectl("annotate", "pod", "pod", "note=mine", *place)
    assert done.returncode == 0, done.text


@pytest.mark.enforcement
def test_what_the_scheduler_decided(hami: Hami) -> None:
    """Each container sees its part of its card; lies of variables give no more, and HAMi's files do no harm.

    A container that starts first waits; a pod of which nothing is known does not start, and says why.
    """
    first, second = uuids()
    plugin = {
        "NVIDIA_VISIBLE_DEVICES": first,
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
    }
    hami.theirs("two", plugin, count=2)
    hami.place("two", f"{first},NVIDIA,3000,30:", f"{second},NVIDIA,4000,0:")
    hami.running("two")
    assert [hami.seen("two", name) for name in ("c0", "c1")] == [[(first, 3000)], [(second, 4000)]]
    lies = {**plugin, "NVIDIA_VISIBLE_DEVICES": "all", "CUDA_DEVICE_MEMORY_LIMIT_0": "15000m"}
    preload = hami.folder / "ld.so.preload"
    preload.write_text("/usr/local/vgpu/libvgpu.so\n")
    mounts = [{"name": "preload", "mountPath": "/etc/ld.so.preload", "readOnly": True}]
    listed = [container("c0", volumeMounts=mounts, env=[{"name": k, "value": v} for k, v in lies.items()])]
    volumes = [{"name": "preload", "hostPath": {"path": str(preload), "type": "File"}}]
    hami.pod("lies", {}, schedulerName=NAME, containers=listed, volumes=volumes)
    done = hami.bind("lies")
    assert done.returncode == 0, done.text
    hami.decide("lies", f"{second},NVIDIA,1000,0:")
    hami.running("lies")
    assert hami.seen("lies", "c0") == [(second, 1000)]
    hami.theirs("forged", lies, nodeName=NODE)
    hami.events_say("forged", "this node's agent has read no annotation by which the cluster's scheduler")
    assert sorted(mib for _, mib, _ in reserved()) == [1000, 3000, 4000]


def test_an_excess_waits(hami: Hami) -> None:
    """What the engine has no room for is refused by an event, and starts when there is room."""
    first, _ = uuids()
    env = {"NVIDIA_VISIBLE_DEVICES": first}
    hami.theirs("large", env)
    hami.place("large", f"{first},NVIDIA,12000,0:")
    hami.running("large")
    hami.theirs("excess", env)
    hami.place("excess", f"{first},NVIDIA,4000,0:")
    hami.events_say("excess", "ShareRefused")
    assert [mib for _, mib, _ in reserved()] == [12000]
    hami.cluster.delete_pod("large", hami.namespace)
    eventually(lambda: hami.has_started("excess"), "the container is tried again", AGAIN_S)
    assert hami.seen("excess", "c0") == [(first, 4000)]


@pytest.fixture
def places(cluster: Cluster) -> Iterator[None]:
    """Give the cards places for all pods of a test."""
    before = cluster.engine.read("0/max_inst")
    for gpu in cluster.engine.gpus():
        cluster.engine.write(f"{gpu}/max_inst", str(MOST))
    yield
    for gpu in cluster.engine.gpus():
        cluster.engine.write(f"{gpu}/max_inst", before)


@pytest.mark.timeout(count(300, 1200))
def test_many_pods_and_deaths(places: None, hami: Hami) -> None:
    """Pods with lying variables come at once while the agent is killed and pods die: each has its own.

    A forged annotation in between changes nothing, and what pods have goes with them.
    """
    cards = uuids()
    lies = {"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_DEVICE_MEMORY_LIMIT_0": "15000m"}
    dead = set(range(3, PODS, 5))
    for number in range(PODS):
        gpu, name = cards[number % len(cards)], f"p{number}"
        hami.theirs(name, lies)
        hami.place(name, f"{gpu},NVIDIA,{300 + number},0:")
        if number in dead:
            done = hami.cluster.kubectl("delete", "pod", name, "--force", "--namespace", hami.namespace)
            assert done.returncode == 0, done.text
        if number % 8 == 7:
            hami.agent.kill()
            more = f"{ALLOCATED}={gpu},NVIDIA,15000,0:;"
            words = ("annotate", "pod", "p0", more, "--overwrite", "--namespace", hami.namespace)
            assert hami.cluster.kubectl(*words).returncode != 0
            hami.agent.start()
    alive = [number for number in range(PODS) if number not in dead]
    for number in alive:
        hami.running(f"p{number}", 240)
        assert hami.seen(f"p{number}", "c0") == [(cards[number % len(cards)], 300 + number)]
    eventually(
        lambda: sorted(mib for _, mib, _ in reserved()) == [300 + number for number in alive],
        "the ledger is what runs",
        60,
    )
    hami.cluster.api.deletecollection(Pod, namespace=hami.namespace)
    eventually(lambda: not reserved(), "the shares of pods that are gone are given back", 120)
