# SPDX-License-Identifier: Apache-2.0
"""Rights of a tenant who writes pods and claims in one namespace, and the effects on others."""

from __future__ import annotations

import pytest
from lightkube import ApiError
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.types import PatchType

from tests.integration.commands import eventually
from tests.kubernetes.faults import NO_DEVICE
from tests.kubernetes.harness.slices import Slices, container, request, reserved


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


def test_a_claim_gives_itself_nothing(slices: Slices) -> None:
    """Also without the webhook no pod starts with weight or priority of its claim's own parameters."""
    for field, value, said in (
        ("weight", 19, "capacity.requests.weight"),
        ("highPriority", True, "allow_claim_priority is false on this node"),
    ):
        parameters = {"apiVersion": "gpu.opencgpu.io/v1", "kind": "ShareParameters", field: value}
        config = [{"opaque": {"driver": "gpu.opencgpu.io", "parameters": parameters}}]
        name = field.lower()
        spec = {"devices": {"requests": [request("1Gi")], "config": config}}
        slices.make("ResourceClaim", name, spec, "resource.k8s.io/v1")
        slices.pod(name, {"main": [name]})
        slices.events_say(name, said)
        slices.cluster.delete_pod(name, slices.namespace)
        slices.cluster.api.delete(ResourceClaim, name, namespace=slices.namespace)
    assert reserved() == []


@NO_DEVICE
def test_a_resource_of_the_device_class(slices: Slices) -> None:
    """A pod that asks by the name that Kubernetes gives to each device class has a whole card, as a slice."""
    limits = {"deviceclass.resource.kubernetes.io/gpu.opencgpu.io": 1}
    slices.pod("whole", {}, containers=[container(resources={"limits": limits})])
    slices.running("whole")
    assert [mib for _, mib in slices.seen("whole")] == [15109]
