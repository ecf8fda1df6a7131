# SPDX-License-Identifier: Apache-2.0
"""Outages for a while, or for good: of the agent, the whole node, a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightkube.core.client import FieldSelector
from lightkube.models.core_v1 import ContainerStatus
from lightkube.models.resource_v1 import Device
from lightkube.resources.core_v1 import Event, Pod
from lightkube.resources.resource_v1 import ResourceSlice

from cgpu import paths
from tests.integration.commands import eventually
from tests.integration.engine import RUN, Engine
from tests.kubernetes.faults import ONE_CARD
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.counts import count
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.reboot import reboot
from tests.kubernetes.harness.slices import AGAIN_S, Slices, left, reserved

# After 30 seconds the kubelet takes the ResourceSlices of a driver away that has gone.
WITHOUT_SLICES_S = 45
TAINTED = "gpu.opencgpu.io/lost"
FAULTS = {
    "mig": (TAINTED, "the engine no longer has"),
    "lost": ("gpu.opencgpu.io/fallen-off-the-bus", "the driver no longer reaches the GPU"),
}


def published(slices: Slices) -> list[Device]:
    return [one for of_node in slices.cluster.api.list(ResourceSlice) for one in of_node.spec.devices or ()]


@pytest.mark.parametrize("away_s", count([10], [10, 60]))
def test_the_agent_is_away(slices: Slices, away_s: int) -> None:
    """Pods that run keep their shares; one that is made waits, one that is deleted is given back later."""
    slices.one("stays", "1Gi")
    slices.one("goes", "2Gi")
    slices.agent.kill()
    began = time.monotonic()
    slices.cluster.api.delete(Pod, "goes", namespace=slices.namespace, grace_period=0)
    slices.claim("comes", "3Gi")
    slices.pod("comes", {"main": ["comes"]})
    while time.monotonic() - began < away_s:
        assert [mib for _, mib in slices.seen("stays")] == [1007]
        assert slices.cluster.pod_status("comes", slices.namespace).phase == "Pending"
        time.sleep(1)
    assert (published(slices) == []) == (away_s >= WITHOUT_SLICES_S)
    slices.agent.start()
    eventually(lambda: len(published(slices)) == 2, "the node publishes its GPUs", 30)
    slices.running("comes", AGAIN_S)
    assert [mib for _, mib in slices.seen("comes")] == [3021]
    eventually(
        lambda: sorted(size for _, size, _ in reserved()) == [1007, 3021], "the other is given back", 60
    )


def test_the_node_starts_anew(slices: Slices) -> None:
    """After a loss of power, with an empty /run, the pods run again, each in the share that it had."""
    for name, size in (("small", "1Gi"), ("large", "10Gi")):
        slices.one(name, size, restartPolicy="Always")
    before = sorted((share, size) for share, size, _ in reserved())
    files = sorted(left())
    reboot(slices.cluster, slices.agent)
    for name, mib in (("small", 1007), ("large", 10072)):
        eventually(lambda name=name: restarted(slices, name), f"{name} runs again", AGAIN_S)  # type: ignore[misc]
        assert [size for _, size in slices.seen(name)] == [mib]
    assert sorted((share, size) for share, size, _ in reserved()) == before
    assert sorted(left()) == files
    slices.one("after", "3Gi")
    assert [size for _, size in slices.seen("after")] == [3021]


def of_container(slices: Slices, name: str) -> ContainerStatus | None:
    statuses = slices.cluster.pod_status(name, slices.namespace).containerStatuses
    return statuses[0] if statuses else None


def restarted(slices: Slices, name: str) -> bool:
    status = of_container(slices, name)
    return status is not None and status.restartCount > 0 and bool(status.ready)


@pytest.fixture
def two_h200(cluster: Cluster) -> Iterator[Engine]:
    cluster.engine.stop()
    other = Engine("H200=15360:2", {}, Path(paths.CONFIG).parent)
    other.start()
    yield other
    other.stop()
    cluster.engine.start()


@ONE_CARD
@pytest.mark.parametrize("fault", ["mig", "lost"])
def test_a_gpu_fails(two_h200: Engine, slices: Slices, fault: str) -> None:
    """A card that can give no slices takes no new pods and says why; pods there stay; it comes back."""
    engine = two_h200
    uuids = [engine.read(f"{gpu}/uuid").strip() for gpu in (0, 1)]
    slices.one("first", "10Gi")
    slices.one("second", "10Gi")
    assert [slices.seen(name)[0][0] for name in ("first", "second")] == uuids
    knob = RUN / "sim" / "driver" / "gpus" / "1" / fault
    knob.write_text("1\n")
    taint, said = FAULTS[fault]
    eventually(lambda: taints(slices) == {uuids[0].lower(): [], uuids[1].lower(): [taint]}, "a taint", 30)
    eventually(lambda: f"GPU 1 ({uuids[1]}): {said}" in events_of_node(slices), "an event", 30)
    eventually(lambda: health(slices, "second") == "Unhealthy", "the status of the pod says it", 60)
    assert health(slices, "first") == "Healthy"
    assert slices.cluster.pod_status("second", slices.namespace).phase == "Running"
    slices.one("beside", "4Gi")
    assert [uuid for uuid, _ in slices.seen("beside")] == uuids[:1]
    slices.claim("waits", "4Gi")
    slices.pod("waits", {"main": ["waits"]})
    slices.events_say("waits", "cannot allocate all claims")
    knob.write_text("0\n")
    slices.running("waits", AGAIN_S)
    assert taints(slices) == {uuid.lower(): [] for uuid in uuids}
    eventually(lambda: health(slices, "second") == "Healthy", "the status of the pod says it", 60)
    assert f"GPU 1 ({uuids[1]}): the GPU can be sliced" in events_of_node(slices)
    assert [uuid for uuid, _ in slices.seen("second")] == uuids[1:]
    assert [uuid for uuid, _ in slices.seen("waits")] == uuids[1:]


def test_the_engine_is_down(slices: Slices) -> None:
    """Both cards take no new pods while the engine is down; pods start when it is back."""
    slices.one("before", "1Gi")
    slices.cluster.delete_pod("before", slices.namespace)
    eventually(lambda: reserved() == [], "nothing is reserved", 60)
    slices.cluster.engine.stop()
    try:
        eventually(lambda: all(keys for keys in taints(slices).values()), "taints", 30)
        slices.claim("waits", "4Gi")
        slices.pod("waits", {"main": ["waits"]})
        slices.events_say("waits", "cannot allocate all claims")
    finally:
        slices.cluster.engine.start()
    slices.running("waits", AGAIN_S)
    assert [mib for _, mib in slices.seen("waits")] == [4029]


def test_an_engine_that_has_forgotten(slices: Slices) -> None:
    """Promises to pods are reserved again at once, also where the engine was not seen to be down."""
    slices.one("kept", "3Gi")
    before = [(share, mib) for share, mib, _ in reserved()]
    slices.cluster.engine.stop()
    slices.cluster.engine.start()
    eventually(lambda: [(share, mib) for share, mib, _ in reserved()] == before, "it is reserved again", 20)


def taints(slices: Slices) -> dict[str, list[str]]:
    return {one.name: [taint.key for taint in one.taints or ()] for one in published(slices)}


def events_of_node(slices: Slices) -> str:
    about: FieldSelector = {"involvedObject.kind": "Node", "involvedObject.name": NODE}
    return "\n".join(
        str(one.message) for one in slices.cluster.api.list(Event, namespace="default", fields=about)
    )


def health(slices: Slices, name: str) -> str | None:
    status = of_container(slices, name)
    resources = (status.allocatedResourcesStatus if status is not None else None) or ()
    found = [str(one.health) for of_kind in resources for one in of_kind.resources or ()]
    return found[0] if found else None
