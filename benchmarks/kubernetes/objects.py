# SPDX-License-Identifier: Apache-2.0
"""Objects of a made-up cluster: nodes, their ResourceSlices, and pods that ask for 1 GiB of a GPU.

No kubelet runs the pods. A node sends no heartbeat: no controller manager is there to miss it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from cgpu.kubernetes.admission.shape import Shape, template
from cgpu.kubernetes.names import DRIVER
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.devices import device

Variant = Literal["plain", "claims"]
CARDS = 2  # of each node, as T4:2 has them
CARD_MIB = 15109
#: of each card for pods that are there before; the rest is for those that the scheduler has placed meanwhile
FILLED_GIB = 12
MAX_INST = 20
NAMESPACE = "default"
CLAIM = "gpu"
CORE = "/api/v1"
RESOURCE_API = "/apis/resource.k8s.io/v1"
IN_NAMESPACE = f"namespaces/{NAMESPACE}"
ONE_GIB = template(Shape(mib=1024), ())["spec"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the API: POST makes an object, PUT replaces it."""

    method: Literal["POST", "PUT"]
    path: str
    body: dict[str, Any] = field(repr=False)


def node_name(number: int) -> str:
    return f"node-{number:05}"


@cache
def card_uuid(node: int, index: int) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{node}/{index}')}"


def nodes(numbers: range) -> Iterator[Request]:
    for number in numbers:
        name = node_name(number)
        has = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "MadeUp", "message": "nobody is there"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": has, "allocatable": has, "conditions": [ready]},
        }
        yield Request("POST", f"{CORE}/nodes", body)


def slices(numbers: range) -> Iterator[Request]:
    """Yield the ResourceSlice of each node, with devices as the agent of a node makes them."""
    for number in numbers:
        name = node_name(number)
        devices = [
            device(
                Card(
                    index,
                    card_uuid(number, index),
                    "Tesla T4",
                    CARD_MIB,
                    MAX_INST,
                    policy=2,
                    reserved=0,
                    mig=False,
                ),
                "card",
                "cgpud",
                (),
            ).to_dict()
            for index in range(CARDS)
        ]
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{DRIVER}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
        yield Request("POST", f"{RESOURCE_API}/resourceslices", body)


def claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": ONE_GIB,
    }


def claims(names: list[str]) -> Iterator[Request]:
    """Yield claims without an allocation."""
    for name in names:
        yield Request("POST", f"{RESOURCE_API}/{IN_NAMESPACE}/resourceclaims", claim(name))


def pod(name: str, variant: Variant, **spec: Any) -> dict[str, Any]:
    """Return a pod that asks for 1 GiB by a claim of its own name, or for no GPU."""
    resources: dict[str, Any] = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    if variant == "claims":
        resources["claims"] = [{"name": CLAIM}]
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": name}]
    container = {"name": "main", "image": "none.example/none:1", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def pods(names: list[str], variant: Variant) -> Iterator[Request]:
    """Yield pods that wait for a node."""
    for name in names:
        yield Request("POST", f"{CORE}/{IN_NAMESPACE}/pods", pod(name, variant))


# Pods from before a measurement: pod number n is on node n modulo their number.


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a pod from before the measurement."""

    name: str
    node: int
    card: int


def places(numbers: range, node_count: int) -> list[Place]:
    """Return where the pods of these numbers are: the cards of a node are filled one after the other.

    Raises ValueError where there is no room for so many.
    """
    if numbers and numbers[-1] >= node_count * CARDS * FILLED_GIB:
        raise ValueError(f"{len(numbers)} pods: {node_count} nodes have no room for so many")
    return [Place(f"old-{n:06}", n % node_count, n // node_count // FILLED_GIB) for n in numbers]


def placed_pods(filled: list[Place], variant: Variant) -> Iterator[Request]:
    """Yield pods that are on their nodes already."""
    for one in filled:
        body = pod(one.name, variant, nodeName=node_name(one.node))
        yield Request("POST", f"{CORE}/{IN_NAMESPACE}/pods", body)


def allocations(filled: list[Place]) -> Iterator[Request]:
    """Yield the status of their claims, as the scheduler writes it."""
    for one in filled:
        result = {
            "request": "gpu",
            "driver": DRIVER,
            "pool": node_name(one.node),
            "device": card_uuid(one.node, one.card).lower(),
            "shareID": str(uuid.uuid5(uuid.NAMESPACE_OID, one.name)),
            "consumedCapacity": {"memory": "1Gi", "weight": "1", "places": "1"},
        }
        selector = {"key": "metadata.name", "operator": "In", "values": [node_name(one.node)]}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [selector]}]},
        }
        reserved = {
            "resource": "pods",
            "name": one.name,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, one.name)),
        }
        body = {**claim(one.name), "status": {"allocation": allocation, "reservedFor": [reserved]}}
        path = f"{RESOURCE_API}/{IN_NAMESPACE}/resourceclaims/{one.name}/status"
        yield Request("PUT", path, body)
