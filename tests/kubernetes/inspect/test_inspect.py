# SPDX-License-Identifier: Apache-2.0
"""Output of `kubectl inspect cgpu`, compared with Alibaba's documentation."""

from __future__ import annotations

import json
from typing import Any, cast

from lightkube.resources.core_v1 import Node
from lightkube.resources.resource_v1 import ResourceClaim, ResourceSlice

from cgpu.kubernetes.inspect import render
from cgpu.kubernetes.inspect.collect import NodeState, states

NAME = "cn-zhangjiakou.192.168.66.139"
ADDRESS = "192.168.66.139"


def node(name: str, address: str) -> Node:
    status = {
        "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    }
    return cast("Node", Node.from_dict({"metadata": {"name": name}, "status": status}))


def published(name: str, sizes: list[str], **device: Any) -> ResourceSlice:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"index": {"int": index}, "productName": {"string": "Tesla T4"}},
            "capacity": {"memory": {"value": size}},
            **device,
        }
        for index, size in enumerate(sizes)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.opencgpu.io", "nodeName": name, "pool": pool, "devices": devices}
    return cast("ResourceSlice", ResourceSlice.from_dict({"metadata": {"name": name}, "spec": spec}))


def given(
    pod: str, memory: str, device: int = 0, pool: str = NAME, driver: str = "gpu.opencgpu.io"
) -> ResourceClaim:
    result = {
        "driver": driver,
        "pool": pool,
        "device": f"gpu-{device}",
        "request": "gpu",
        "shareID": f"share-of-{pod}",
        "consumedCapacity": {"memory": memory},
    }
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": "u"}],
    }
    metadata = {"name": f"{pod}-gpu", "namespace": "team"}
    return cast(
        "ResourceClaim", ResourceClaim.from_dict({"metadata": metadata, "spec": {}, "status": status})
    )


def one_node(claims: list[ResourceClaim]) -> tuple[NodeState, ...]:
    return states([published(NAME, ["15Gi"])], claims, [node(NAME, ADDRESS)])


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if set(line) != {"-"}]


def test_nodes_of_several_sizes() -> None:
    """Missing cards, and nodes, are 0/0; claims of others and of other nodes do not count."""
    slices = [published("b", ["15Gi", "15Gi"]), published("a", ["23Gi"])]
    claims = [
        given("p", "3Gi", 1, "b"),
        given("q", "1536Mi", 0, "b"),
        given("r", "3Gi", 0, "a", "nic.example.com"),
    ]
    found = states(slices, claims, [node("a", "10.0.0.1")])
    assert words(render.summary(found))[1:3] == [
        ["a", "10.0.0.1", "0/23", "0/0", "0/23"],
        ["b", "-", "1.5/15", "3/15", "4.5/30"],
    ]
    assert [one.name for one in states(slices, claims, [], "b")] == ["b"]
    assert words(render.summary(()))[-1] == words(render.details(()))[-1] == ["0/0", "(0%)"]


def test_details() -> None:
    """Each pod with what it has of each GPU; a claim that no pod has reserved is named as such."""
    unreserved = given("x", "2Gi")
    assert unreserved.status is not None
    unreserved.status.reservedFor = None
    text = render.details(one_node([given("b", "3Gi"), given("a", "1Gi"), unreserved]))
    assert words(text)[:2] == [["NAME:", NAME], ["IPADDRESS:", ADDRESS]]
    assert words(text)[3:] == [
        ["NAME", "NAMESPACE", "GPU0(Allocated)"],
        ["a", "team", "1"],
        ["b", "team", "3"],
        ["claim", "x-gpu", "team", "2"],
        ["Allocated", ":", "6", "(40%)"],
        ["Total", ":", "15"],
        ["Allocated/Total", "GPU", "Memory", "In", "Cluster:"],
        ["6/15", "(40%)"],
    ]


def test_exact_sizes_and_taints() -> None:
    """All is in MiB where nodes publish MiB; wide shows taints that keep pods away."""
    taints = [{"key": "gpu.opencgpu.io/engine-down", "effect": "NoSchedule"}]
    found = states([published(NAME, ["15109Mi"], taints=taints)], [given("p", "6043Mi")], [])
    text = words(render.summary(found, wide=True))
    assert text[0][3:-1] == ["GPU0(Used)", "GPU", "Memory(MiB)", "Used(MiB)", "PRODUCT", "TAINTS"]
    taint = "GPU0:gpu.opencgpu.io/engine-down"
    assert text[1][2:-1] == ["6043/15109", "?", "6043/15109", "?", "Tesla", "T4", taint]
    assert json.loads(render.document(found))["nodes"][0]["gpus"][0]["shares"][0]["mib"] == 6043
