# SPDX-License-Identifier: Apache-2.0
"""Pods that ask by other systems' names, in a cluster with our webhook, and kubectl's view of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from lightkube import ApiError
from lightkube.resources.apps_v1 import ReplicaSet
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Node as NodeObject
from lightkube.resources.core_v1 import Pod, ResourceQuota
from lightkube.resources.resource_v1 import DeviceClass, ResourceClaimTemplate, ResourceSlice
from lightkube.types import CascadeType, PatchType

from cgpu.client.tree import Tree
from cgpu.kubernetes.admission.templates import FORMAT, LAST_USED
from cgpu.kubernetes.node.devices import device
from tests.integration.commands import eventually
from tests.integration.engine import MIB, TREE
from tests.kubernetes.faults import ONE_CARD
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.chart import with_admission
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.control_plane import NODE_ADDRESS
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.node import load_image
from tests.kubernetes.harness.slices import Slices, by_limits, with_agent
from tests.kubernetes.node.objects import T4

SAMPLE = Path(__file__).with_name("admission") / "ack-sample.yaml"
SAMPLE_IMAGE = "registry.cn-hangzhou.aliyuncs.com/ai-samples/gpushare-sample:tensorflow-1.5"
# The image's own is TensorFlow's; this one has a GPU's memory, too.
PYTHON = "#!/busybox sh\nexec /cgpu-probe info alloc=2G hold=3600\n"


@pytest.fixture
def slices(cluster: Cluster, namespace: str) -> Iterator[Slices]:
    with with_agent(cluster, namespace) as found, with_admission(cluster):
        yield found


def asking(
    slices: Slices, name: str, limits: Mapping[str, Any], scheduler: str | None = None, **metadata: Any
) -> None:
    spec = by_limits(limits) | ({"schedulerName": scheduler} if scheduler else {})
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
    slices.cluster.apply(document, slices.namespace)


def pods(slices: Slices) -> list[str]:
    found = slices.cluster.api.list(Pod, namespace=slices.namespace)
    return [str(one.metadata.name) for one in found if one.metadata is not None]


def templates(slices: Slices) -> list[ResourceClaimTemplate]:
    return list(slices.cluster.api.list(ResourceClaimTemplate, namespace=slices.namespace))


def inspected(slices: Slices, *words: str) -> str:
    done = slices.cluster.kubectl("inspect", "cgpu", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_manifest_of_ack(slices: Slices, tmp_path: Path) -> None:
    """Alibaba's example runs unchanged; kubectl shows what its documentation shows."""
    load_image(tmp_path, SAMPLE_IMAGE, {"usr/bin/python": PYTHON})
    slices.cluster.apply(SAMPLE, slices.namespace)
    eventually(lambda: pods(slices) != [], "the job has its pod", 30)
    (name,) = pods(slices)
    slices.running(name)
    assert [mib for _, mib in slices.seen(name, "gpu-share-sample")] == [3021]
    head, node, line, below, total = inspected(slices).splitlines()
    columns = ["NAME", "IPADDRESS", "GPU0(Allocated/Total)", "GPU1(Allocated/Total)", "GPU", "Memory(GiB)"]
    assert head.split() == columns
    assert node.split() == [NODE, NODE_ADDRESS, "3/15", "0/15", "3/30"]
    assert set(line) == {"-"}
    assert [below, total] == ["Allocated/Total GPU Memory In Cluster:", "3/30 (10%)"]
    assert name in inspected(slices, "--details")
    slices.cluster.api.delete(Job, "gpu-share-sample", namespace=slices.namespace)


@ONE_CARD
def test_names_of_other_systems(slices: Slices) -> None:
    """HAMi's, Volcano's and KAI's names give what they say, percentages too."""
    asking(slices, "hami", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})
    asking(slices, "two", {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30})
    asking(slices, "half", {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50})
    asking(slices, "volcano", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1024})
    asking(slices, "kai", {}, annotations={"gpu-memory": "1024"}, scheduler="kai-scheduler")
    for name, mib in (("hami", 2950), ("half", 7554), ("volcano", 1007), ("kai", 1007)):
        slices.running(name)
        assert [size for _, size in slices.seen(name)] == [mib], name
    slices.running("two")
    assert [size for _, size in slices.seen("two")] == [2950, 2950]


@ONE_CARD
def test_cards_of_annotations(slices: Slices) -> None:
    """HAMi's annotations choose the card, or leave none; the API server takes the longest of them."""
    (found,) = slices.cluster.api.list(ResourceSlice)
    devices = found.to_dict()["spec"]["devices"]
    second = devices[1]["attributes"]["uuid"]["string"]
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024}
    chosen = {"nvidia.com/use-gpuuuid": f"GPU-0,{second}", "nvidia.com/use-gputype": "a100,tesla t4"}
    asking(slices, "chosen", limits, annotations=chosen)
    asking(slices, "avoided", limits, annotations={"nvidia.com/nouse-gputype": "T4"})
    words = ",".join(f"{number:064}" for number in range(32))
    names = ("use-gpuuuid", "nouse-gpuuuid", "use-gputype", "nouse-gputype")
    asking(slices, "long", limits, annotations={f"nvidia.com/{name}": words for name in names})
    slices.running("chosen")
    assert slices.seen("chosen") == [(second, 1007)]
    for name in ("avoided", "long"):
        waiting = partial(waits_for_claims, slices, name)
        eventually(waiting, f"{name} waits", 30)


def waits_for_claims(slices: Slices, name: str) -> bool:
    events = slices.cluster.events(name, slices.namespace)
    return any("cannot allocate all claims" in one for one in events)


def test_warnings(slices: Slices, tmp_path: Path) -> None:
    """kubectl shows what of a pod does not count, and an event a claim without the runtime class."""
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 15361}
    spec = {**by_limits(limits), "schedulerName": "volcano"}
    metadata = {
        "name": "large",
        "namespace": slices.namespace,
        "annotations": {"nvidia.com/vgpu-mode": "mig"},
    }
    manifest = tmp_path / "large.yaml"
    manifest.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    )
    done = slices.cluster.kubectl("apply", "--filename", str(manifest))
    assert [line.split(": ")[:3] for line in done.stderr.splitlines()] == [
        ["Warning", "opencgpu", "container main"],
        ["Warning", "opencgpu", "nvidia.com/vgpu-mode"],
        ["Warning", "opencgpu", "schedulerName"],
    ]
    slices.claim("plain", "1Gi")
    slices.pod("plain", {"main": ["plain"]}, runtimeClassName=None)
    slices.running("plain")
    events = slices.cluster.events("plain", slices.namespace)
    assert [one for one in events if one.startswith("NoRuntimeClass")]


def test_a_scheduler_of_its_own(cluster: Cluster, namespace: str) -> None:
    """The chart's scheduler has the rights and the configuration to place the pods of admission."""
    with (
        with_agent(cluster, namespace) as slices,
        chart.with_scheduler(cluster) as scheduler,
        with_admission(cluster, f"--scheduler={scheduler}", "--keep-names"),
    ):
        limit_memory(slices)
        asking(slices, "one", {"aliyun.com/gpu-mem": 3}, scheduler="ack-co-scheduler")
        slices.running("one")
        spec = cluster.api.get(Pod, "one", namespace=namespace).spec
        assert spec is not None
        assert spec.schedulerName == scheduler
        asking(slices, "default", {"cpu": "10m", "aliyun.com/gpu-core.percentage": 5})
        slices.running("default")
        assert slices.seen("default")[0][1] == 2014
        with pytest.raises(ApiError, match=r"exceeded quota: team.*requests\.aliyun\.com/gpu-mem=1"):
            asking(slices, "more", {"aliyun.com/gpu-mem": 1})
        cluster.delete_pod("default", namespace)
        cluster.delete_pod("one", namespace)


@ONE_CARD
@pytest.mark.parametrize("by", ["label", "annotation"])
def test_replicas_avoid_the_same_gpu(cluster: Cluster, namespace: str, by: str) -> None:
    """Four replicas that are made at once are two on each of two cards, where node or pod says spread."""
    metadata: dict[str, Any] = {"labels": {"app": "many"}}
    if by == "annotation":
        metadata["annotations"] = {"hami.io/gpu-scheduler-policy": "spread"}
    wanted = "spread" if by == "label" else "binpack"
    with labelled(cluster, wanted), with_agent(cluster, namespace) as slices:
        eventually(lambda: placement(cluster) == wanted, f"the node says {wanted}", 60)
        with with_admission(cluster):
            spec = {**by_limits({"aliyun.com/gpu-mem": 3}), "restartPolicy": "Always"}
            replicas(slices, 4, {"metadata": metadata, "spec": spec})
            for name in pods(slices):
                slices.running(name)
            found = Counter(slices.seen(name)[0][0] for name in pods(slices))
            assert sorted(found.values()) == [2, 2]
            cluster.api.delete(ReplicaSet, "many", namespace=namespace)


def replicas(slices: Slices, number: int, template: dict[str, Any]) -> None:
    """Make so many pods at once, of a template that has the label app: many."""
    spec = {"replicas": number, "selector": {"matchLabels": {"app": "many"}}, "template": template}
    slices.make("ReplicaSet", "many", spec, "apps/v1")
    eventually(lambda: len(pods(slices)) == number, f"there are {number} pods", 30)


@contextmanager
def labelled(cluster: Cluster, wanted: str) -> Iterator[None]:
    for value in (wanted, None):
        change = {"metadata": {"labels": {"ack.node.gpu.placement": value}}}
        cluster.api.patch(NodeObject, NODE, change, patch_type=PatchType.MERGE)
        if value is not None:
            yield


def placement(cluster: Cluster) -> str:
    (found,) = cluster.api.list(ResourceSlice)
    (first, _) = found.to_dict()["spec"]["devices"]
    return str(first["attributes"].get("placement", {}).get("string"))


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_nodes_as_annotated(slices: Slices, policy: str) -> None:
    """Nine replicas of 3 GiB go to as few of three nodes as hold them, or to all, as HAMi's words say."""
    metadata = {"labels": {"app": "many"}, "annotations": {"hami.io/node-scheduler-policy": policy}}
    spec = {**by_limits({"aliyun.com/gpu-mem": 3}), "restartPolicy": "Always"}
    with made_up_nodes(slices, policy, 3) as names:
        # Nobody says that these nodes are well, which Kubernetes marks by taints after a while.
        spec |= {"nodeSelector": {"made-up": policy}, "tolerations": [{"operator": "Exists"}]}
        replicas(slices, 9, {"metadata": metadata, "spec": spec})
        eventually(lambda: sum(nodes_of(slices).values()) == 9, "all have nodes", 60)
        found = nodes_of(slices)
        assert set(found) <= set(names)
        assert sorted(found.values()) == ([9] if policy == "binpack" else [3, 3, 3])


def nodes_of(slices: Slices) -> Counter[str]:
    listed = slices.cluster.api.list(Pod, namespace=slices.namespace)
    return Counter(one.spec.nodeName for one in listed if one.spec and one.spec.nodeName)


@contextmanager
def made_up_nodes(slices: Slices, label: str, number: int) -> Iterator[list[str]]:
    """Have nodes with two T4 each that nobody runs, so that their pods go without a grace period."""
    api = slices.cluster.api
    names = [f"made-up-{label}-{one}" for one in range(number)]
    for name in names:
        labels = {"made-up": label, "kubernetes.io/hostname": name, "opencgpu.io/node": "install"}
        has = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "MadeUp", "message": "nobody is there"}
        status = {"capacity": has, "allocatable": has, "conditions": [ready]}
        node = NodeObject.from_dict({"metadata": {"name": name, "labels": labels}, "status": status})
        api.create(cast("NodeObject", node))
        cards = [replace(T4, uuid=f"GPU-{name}-{index}", index=index) for index in range(2)]
        spec = {
            "driver": "gpu.opencgpu.io",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device(card, "card", "cgpud", ()).to_dict() for card in cards],
        }
        published = ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec})
        api.create(cast("ResourceSlice", published))
    try:
        yield names
    finally:
        api.deletecollection(ReplicaSet, namespace=slices.namespace, cascade=CascadeType.ORPHAN)
        api.deletecollection(Pod, namespace=slices.namespace, grace_period=0)
        for name in names:
            api.delete(ResourceSlice, name)
            api.delete(NodeObject, name)


def limit_memory(slices: Slices) -> None:
    """Have a default of 2 GiB in the namespace, and a quota of 5."""
    item = {"type": "Container", "default": {"aliyun.com/gpu-mem": 2}}
    slices.make("LimitRange", "team", {"limits": [item]})
    slices.make("ResourceQuota", "team", {"hard": {"requests.aliyun.com/gpu-mem": 5}})


def test_names_that_do_not_stay(slices: Slices) -> None:
    """With the cluster's scheduler a LimitRange may put names back, and a quota that counts them refuses."""
    limit_memory(slices)
    with pytest.raises(ApiError, match=r"ResourceQuota team counts aliyun\.com/gpu-mem, which pods in"):
        asking(slices, "counted", {"aliyun.com/gpu-mem": 1})
    slices.cluster.api.delete(ResourceQuota, "team", namespace=slices.namespace)
    asking(slices, "one", {"aliyun.com/gpu-mem": 3})
    slices.running("one")
    assert [mib for _, mib in slices.seen("one")] == [3021]


def test_templates_are_few_and_collected(slices: Slices) -> None:
    """Pods of one shape have one template; it goes when no pod names it and time has passed."""
    for number in range(3):
        asking(slices, f"alike-{number}", {"aliyun.com/gpu-mem": 1})
    assert len(templates(slices)) == 1
    config = str(slices.cluster.service_account("cgpu-templates", chart.NAMESPACE))
    command = [sys.executable, "-m", "cgpu.main", "kubernetes", "templates", "--kubeconfig", config]
    last_used(slices, days=2)
    subprocess.run(command, check=True, timeout=60)
    assert len(templates(slices)) == 1
    for number in range(3):
        slices.cluster.delete_pod(f"alike-{number}", slices.namespace)
    last_used(slices, days=0)
    subprocess.run([*command, "--hours", "2"], check=True, timeout=60)
    assert len(templates(slices)) == 1
    last_used(slices, days=2)
    subprocess.run(command, check=True, timeout=60)
    assert templates(slices) == []


def test_a_namespace_has_few_templates(slices: Slices) -> None:
    """Templates come before the API server judges a pod; pods that it refuses make 256 and no more."""
    for number in range(5):
        asked = [{"limits": {"nvidia.com/gpumem": 64 * number + one + 1}} for one in range(64)]
        listed = [{"name": f"c{one}", "resources": resources} for one, resources in enumerate(asked)]
        with pytest.raises(ApiError, match="image" if number < 4 else "has templates of 256 shapes"):
            slices.make("Pod", f"many-{number}", {"containers": listed})
    assert len(templates(slices)) == 256


def last_used(slices: Slices, days: int) -> None:
    """Have the templates say that a pod was last given them so many days ago."""
    then = (datetime.now(UTC) - timedelta(days=days)).strftime(FORMAT)
    for one in templates(slices):
        assert one.metadata is not None
        change = {"metadata": {"annotations": {LAST_USED: then}}}
        slices.cluster.api.patch(
            ResourceClaimTemplate,
            str(one.metadata.name),
            change,
            namespace=slices.namespace,
            patch_type=PatchType.MERGE,
        )


def test_parameters_of_a_class(slices: Slices) -> None:
    """A DeviceClass bounds the weight of its claims; malformed parameters are refused when it is made."""
    for weight, expected in (("2", "weight: 2: expected a whole number"), (3, None)):
        parameters = {"apiVersion": "gpu.opencgpu.io/v1", "kind": "ShareParameters", "weight": weight}
        spec = {
            "selectors": [{"cel": {"expression": 'device.driver == "gpu.opencgpu.io"'}}],
            "config": [{"opaque": {"driver": "gpu.opencgpu.io", "parameters": parameters}}],
        }
        document = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "heavy"}}
        if expected is not None:
            with pytest.raises(ApiError, match=expected):
                slices.cluster.apply({**document, "spec": spec})
        else:
            slices.cluster.apply({**document, "spec": spec})
    device = {"deviceClassName": "heavy", "capacity": {"requests": {"memory": "3Gi", "weight": "5"}}}
    request = {"devices": {"requests": [{"name": "gpu", "exactly": device}]}}
    own = [{"opaque": {"driver": "gpu.opencgpu.io", "parameters": {**parameters, "weight": 19}}}]
    greedy = {"devices": {**request["devices"], "config": own}}
    with pytest.raises(ApiError, match=r"weight: expected in the claim's capacity\.requests\.weight"):
        slices.make("ResourceClaim", "greedy", greedy, "resource.k8s.io/v1")
    slices.make("ResourceClaim", "heavy", request, "resource.k8s.io/v1")
    slices.pod("heavy", {"main": ["heavy"]})
    slices.running("heavy")
    (held,) = Tree(str(TREE)).reserved(0)
    assert (held.slice.memsize // MIB, held.slice.weight) == (3021, 3)
    slices.cluster.api.delete(DeviceClass, "heavy")


def test_the_webhook_is_down(slices: Slices) -> None:
    """Without the webhook a pod that asks is refused, and other pods start."""
    slices.cluster.components_of_test("admission").stop()
    with pytest.raises(ApiError, match=r"pods\.opencgpu\.io"):
        asking(slices, "asks", {"aliyun.com/gpu-mem": 1})
    asking(slices, "plain", {"cpu": "10m"})
    slices.running("plain")
