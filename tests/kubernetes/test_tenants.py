# SPDX-License-Identifier: Apache-2.0
"""What someone may do who writes pods and claims in one namespace, and what becomes of others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lightkube import ApiError
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.types import PatchType

from tests.integration.commands import eventually
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.node import PROBE_IMAGE
from tests.kubernetes.harness.slices import WAIT, Slices, reserved, with_agent


@pytest.fixture
def slices(cluster: Cluster, namespace: str) -> Iterator[Slices]:
    """Yield a cluster with an agent."""
    with with_agent(cluster, namespace) as found:
        yield found


def test_a_claim_in_use_is_not_forgotten(slices: Slices) -> None:
    """Its finalizer stays while it has a part of a GPU, and goes by Kubernetes itself afterwards."""
    slices.one("kept", "6Gi")
    patch = {"metadata": {"finalizers": None}}
    with pytest.raises(ApiError, match="keeps the finalizer"):
        slices.cluster.api.patch(
            ResourceClaim, "kept", patch, namespace=slices.namespace, patch_type=PatchType.MERGE
        )
    slices.cluster.api.delete(ResourceClaim, "kept", namespace=slices.namespace)
    assert [size for _, size, _ in reserved()] == [6043]
    slices.cluster.delete_pod("kept", slices.namespace)
    eventually(
        lambda: not list(slices.cluster.api.list(ResourceClaim, namespace=slices.namespace)), "it is gone", 60
    )


def test_times_that_python_has_not(slices: Slices) -> None:
    """A time of the year 0 in a claim's managed fields ends no agent."""
    slices.one("odd", "1Gi")
    entry = {
        "manager": "odd",
        "operation": "Update",
        "apiVersion": "resource.k8s.io/v1",
        "time": "0000-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}},
    }
    patch = json.dumps({"metadata": {"managedFields": [entry]}})
    named = ("resourceclaim", "odd", "--namespace", slices.namespace)
    assert slices.cluster.kubectl("patch", *named, "--type=merge", "-p", patch).returncode == 0
    shown = slices.cluster.kubectl("get", *named, "--show-managed-fields", "-o", "json")
    assert "0000-01-01T00:00:00Z" in shown.stdout
    slices.agent.kill()
    slices.agent.start()
    slices.one("later", "1Gi")
    assert [mib for _, mib in slices.seen("later")] == [1007]


def test_a_request_with_alternatives(slices: Slices) -> None:
    """A container that names the request has the GPU of the alternative that was taken."""
    alternatives = [
        {
            "name": f"of-{size.lower()}",
            "deviceClassName": "gpu.opencgpu.io",
            "capacity": {"requests": {"memory": size}},
        }
        for size in ("64Gi", "3Gi")
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": alternatives}]}}
    slices.make("ResourceClaim", "either", spec, "resource.k8s.io/v1")
    container = {
        "name": "main",
        "image": PROBE_IMAGE,
        "command": WAIT,
        "resources": {"claims": [{"name": "either", "request": "gpu"}]},
    }
    slices.pod("either", {"main": ["either"]}, containers=[container])
    slices.running("either")
    assert [mib for _, mib in slices.seen("either")] == [3021]


def test_a_resource_of_the_device_class(slices: Slices) -> None:
    """A pod that asks by the name that Kubernetes gives to each device class has a whole card, as a slice."""
    limits = {"deviceclass.resource.kubernetes.io/gpu.opencgpu.io": 1}
    container = {"name": "main", "image": PROBE_IMAGE, "command": WAIT, "resources": {"limits": limits}}
    slices.pod("whole", {}, containers=[container])
    slices.running("whole")
    assert [mib for _, mib in slices.seen("whole")] == [15109]
