# SPDX-License-Identifier: Apache-2.0
"""Pods of the RuntimeClass on a real node: each sees its slice, and who asks for too much reads why not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB, TREE
from tests.integration.probe import NO_MEMORY, step
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.node import PROBE_IMAGE

LIMIT = 6043 * MIB
WAIT = ("/busybox", "sh", "-c", "trap exit TERM; while :; do /busybox sleep 0.1; done")


def slice_pod(name: str, gib: int, *command: str) -> dict[str, object]:
    """Return a pod that asks by variables for so much of the first card's 15."""
    env = {
        "ALIYUN_COM_GPU_MEM_CONTAINER": str(gib),
        "ALIYUN_COM_GPU_MEM_DEV": "15",
        "NVIDIA_VISIBLE_DEVICES": "0",
    }
    container = {
        "name": "main",
        "image": PROBE_IMAGE,
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    spec = {"runtimeClassName": "cgpu", "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def by_variables(cluster: Cluster) -> Iterator[None]:
    """Let variables of pods count on the node."""
    with cluster.configured(pod_variables=True):
        yield


def instances() -> list[str]:
    """Return the containers that have a slice of the first card."""
    return [path.name for path in (TREE / "0").iterdir() if path.is_dir()]


@pytest.mark.enforcement
def test_pod_has_its_slice(cluster: Cluster, namespace: str, by_variables: None) -> None:
    """A pod with 6 of 15 sees exactly 6043 MiB, is refused more, and gives all back at its end."""
    cluster.apply(slice_pod("sliced", 6, *WAIT), namespace)
    cluster.await_pod("sliced", namespace, "Running")
    assert len(instances()) == 1
    seen = cluster.exec("sliced", namespace, "/cgpu-probe", "info")
    assert step(seen, "info").number("total") == LIMIT
    over = cluster.exec("sliced", namespace, "/cgpu-probe", "alloc=7G")
    assert step(over, "alloc").number("status") == NO_MEMORY
    cluster.delete_pod("sliced", namespace)
    eventually(lambda: instances() == [], "the engine has no container")


def test_events_say_why_a_pod_does_not_start(cluster: Cluster, namespace: str, by_variables: None) -> None:
    """A pod that asks for more than a card has fails, and its events have our line."""
    cluster.apply(slice_pod("too-much", 16, *WAIT), namespace)
    cluster.await_pod("too-much", namespace, "Failed")
    wanted = "MEM_CONTAINER=16: 16 is more than the whole card"
    eventually(
        lambda: any(wanted in event for event in cluster.events("too-much", namespace)),
        f"the pod's events say: {wanted}",
    )
    assert instances() == []
