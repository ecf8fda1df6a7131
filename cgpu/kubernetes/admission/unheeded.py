# SPDX-License-Identifier: Apache-2.0
"""Warnings about what a pod says in other systems' words and does not get here.

Sources: documents of Project-HAMi/HAMi, volcano-sh/devices and NVIDIA/KAI-Scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cgpu.errors import show
from cgpu.kubernetes.admission.nodes import NODE_POLICY, POLICIES
from cgpu.kubernetes.admission.turns import POLICY

# Schedulers of the other systems, which Kubernetes' own replaces, with what of them nobody does then.
KAI = "kai-scheduler"
SCHEDULERS = {
    "ack-co-scheduler": "",
    "hami-scheduler": "",
    KAI: "its queues and groups do not count",
    "volcano": "its queues and groups do not count",
}
# A resource of a container, beside HAMi's others.
PRIORITY = "nvidia.com/priority"
SLICE = "a slice is neither a MIG device nor a client of MPS"
QUEUE = "Kubernetes' scheduler has no queues"
# By annotation or label: the values that ask for no more than a slice has, and why others do not count.
WORDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "nvidia.com/vgpu-mode": (("hami-core",), SLICE),
    "volcano.sh/vgpu-mode": (("hami-core",), SLICE),
    "nvidia.com/numa-bind": (("false",), "cards are chosen whatever their NUMA node"),
    POLICY: (POLICIES, "cards are chosen by binpack or spread"),
    NODE_POLICY: (POLICIES, "nodes are chosen by binpack or spread"),
    "scheduling.volcano.sh/queue-name": ((), QUEUE),
    "kai.scheduler/queue": ((), QUEUE),
}


def warnings(pod: Mapping[str, Any], scheduler: str) -> Iterator[str]:
    """Yield a line for each word of a pod that does not count. scheduler: places it."""
    metadata = pod.get("metadata") or {}
    said = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    for name, (heeded, why) in WORDS.items():
        if said.get(name, "") not in ("", *heeded):
            yield f"{name}: {show(said[name])}: does not count: {why}"
    spec = pod.get("spec") or {}
    lost = SCHEDULERS.get(str(spec.get("schedulerName")), "")
    if lost:
        yield f"schedulerName: {spec['schedulerName']}: {scheduler} places this pod: {lost}"


def priority(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line where a container that asks has HAMi's priority."""
    if PRIORITY in ((container.get("resources") or {}).get("limits") or {}):
        yield (
            f"container {show(container.get('name'))}: {PRIORITY}: does not count: a share of time is set by "
            "nvidia.com/gpucores, a priority by parameters of a claim (highPriority)"
        )
