# SPDX-License-Identifier: Apache-2.0
"""Objects of Kubernetes and cards as tests of the node's agent need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu.kubernetes.node.card import Card

NODE = "node-1"
CLAIM = "11111111-2222-3333-4444-555555555555"
POD = "99999999-2222-3333-4444-555555555555"
T4 = Card(0, "GPU-afcd1d7b-0000-0000-0000-000000000000", "Tesla T4", 15109, 20, 1, 0, mig=False)
SECOND = Card(1, "GPU-bbbb1d7b-0000-0000-0000-000000000000", "Tesla T4", 15109, 20, 1, 0, mig=False, minor=1)


def share_id(number: int) -> str:
    return f"{number:08x}-aaaa-bbbb-cccc-dddddddddddd"


def result(number: int, memory: str = "6Gi", **fields: Any) -> dict[str, Any]:
    """Return what the scheduler has given to one request, named r0 and so on."""
    return {
        "request": f"r{number}",
        "driver": "gpu.opencgpu.io",
        "pool": NODE,
        "device": T4.device,
        "shareID": share_id(number),
        "consumedCapacity": {"memory": memory, "weight": "1"},
        **fields,
    }


def claim(
    results: Sequence[Mapping[str, Any]],
    config: Sequence[Mapping[str, Any]] = (),
    pods: Sequence[str] = (POD,),
) -> ResourceClaim:
    found = ResourceClaim.from_dict(
        {
            "metadata": {"namespace": "team", "name": "part", "uid": CLAIM},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": list(results), "config": list(config)}},
                "reservedFor": [{"resource": "pods", "name": f"pod-{uid}", "uid": uid} for uid in pods],
            },
        }
    )
    return cast("ResourceClaim", found)


def opaque(source: str, requests: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    parameters = {"apiVersion": "gpu.opencgpu.io/v1", "kind": "ShareParameters", **fields}
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": "gpu.opencgpu.io", "parameters": parameters},
    }


def pod(containers: Mapping[str, Sequence[Mapping[str, str]]], uid: str = POD, **entry: str) -> Pod:
    """Return a pod. containers: by name, their references; entry: that of its claim `part`.

    A name that begins with init is that of an init container, one that begins with side of a sidecar.
    """
    listed = [
        {"name": name, "resources": {"claims": [dict(one) for one in references]}}
        | ({"restartPolicy": "Always"} if name.startswith("side") else {})
        for name, references in containers.items()
    ]
    found = Pod.from_dict(
        {
            "metadata": {"namespace": "team", "name": f"pod-{uid}", "uid": uid},
            "spec": {
                "runtimeClassName": "cgpu",
                "initContainers": [one for one in listed if str(one["name"]).startswith(("init", "side"))],
                "containers": [one for one in listed if not str(one["name"]).startswith(("init", "side"))],
                "resourceClaims": [{"name": "gpu", **(entry or {"resourceClaimName": "part"})}],
            },
            "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "part"}]},
        }
    )
    return cast("Pod", found)
