# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes itself does with consumable capacity: the ground on which slices are claimed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lightkube import ApiError
from lightkube.resources.core_v1 import Pod, ResourceQuota
from lightkube.resources.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

from tests.integration.commands import eventually
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.node import PROBE_IMAGE

DRIVER = "made-up.opencgpu.io"
POOL = f"""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: {DRIVER}
spec:
  selectors:
    - cel:
        expression: device.driver == "{DRIVER}"
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: made-up
spec:
  driver: {DRIVER}
  nodeName: {NODE}
  pool: {{name: made-up, generation: 1, resourceSliceCount: 1}}
  devices:
    - name: gpu-0
      allowMultipleAllocations: true
      capacity:
        memory:
          value: 15Gi
          requestPolicy:
            default: 1Gi
            validRange: {{min: 1Mi, max: 15Gi, step: 1Mi}}
"""
NAMES = ("first", "second", "third")


def claim(name: str) -> str:
    """Return a claim of 6 GiB, and a pod that waits for it: no driver prepares it."""
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: {name}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: {DRIVER}
          capacity: {{requests: {{memory: 6Gi}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: {PROBE_IMAGE}
      resources: {{claims: [{{name: gpu}}]}}
  resourceClaims:
    - {{name: gpu, resourceClaimName: {name}}}
"""


@pytest.fixture
def pool(cluster: Cluster, namespace: str) -> Iterator[None]:
    """A device of 15 GiB of a driver that is not there, so its pods never end by themselves."""
    cluster.apply(POOL)
    yield
    cluster.api.deletecollection(Pod, namespace=namespace, grace_period=0)
    cluster.api.delete(ResourceSlice, "made-up")
    cluster.api.delete(DeviceClass, DRIVER)


def results(cluster: Cluster, namespace: str) -> dict[str, tuple[str, str]]:
    """Return for each claim that is allocated the id of its share, and the memory that it has."""
    found = {}
    for one in cluster.api.list(ResourceClaim, namespace=namespace):
        allocation = one.status.allocation if one.status else None
        if allocation and allocation.devices and allocation.devices.results:
            [result] = allocation.devices.results
            memory = (result.consumedCapacity or {})["memory"]
            found[str(one.metadata and one.metadata.name)] = (str(result.shareID), str(memory))
    return found


def test_claims_share_a_device(cluster: Cluster, namespace: str, pool: None) -> None:
    """Of three claims of 6 GiB on 15, two are allocated, each with an id; the third follows when one goes."""
    for name in NAMES:
        cluster.apply(claim(name), namespace)
    eventually(lambda: len(results(cluster, namespace)) == 2, "two claims are allocated", 60)
    [waiting] = set(NAMES) - set(results(cluster, namespace))
    eventually(
        lambda: any("cannot allocate all claims" in event for event in cluster.events(waiting, namespace)),
        f"the events of {waiting} say that it cannot be allocated",
    )
    allocated = results(cluster, namespace)
    assert {memory for _, memory in allocated.values()} == {"6Gi"}
    assert len({share for share, _ in allocated.values()}) == 2
    assert all(len(share) == 36 and share == share.lower() for share, _ in allocated.values())
    assert cluster.pod_status(waiting, namespace).phase == "Pending"

    cluster.api.delete(Pod, min(allocated), namespace=namespace, grace_period=0)
    eventually(lambda: waiting in results(cluster, namespace), f"{waiting} is allocated", 60)


def test_a_quota_counts_devices(cluster: Cluster, namespace: str, pool: None) -> None:
    """A quota limits how many parts of GPUs a namespace has, whatever their sizes."""
    hard = {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "1"}
    metadata = {"name": "parts"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}, namespace
    )
    eventually(lambda: counted(cluster, namespace) == "0", "the quota is counted", 30)
    cluster.apply(claim("first"), namespace)
    with pytest.raises(ApiError, match="exceeded quota: parts"):
        cluster.apply(claim("second"), namespace)


def counted(cluster: Cluster, namespace: str) -> str | None:
    """Return how many devices the quota has counted, None before it has."""
    status = cluster.api.get(ResourceQuota, "parts", namespace=namespace).status
    return next(iter((status.used or {}).values()), None) if status is not None else None
