# SPDX-License-Identifier: Apache-2.0
"""HAMi's annotation for the choice of a node, as a preference by which Kubernetes' scheduler scores nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NODE_POLICY = "hami.io/node-scheduler-policy"
# Label of pods that follow the policy: they stay together, or apart.
LABEL = "opencgpu.io/nodes"
HOST = "kubernetes.io/hostname"
POLICIES = ("binpack", "spread")


def prefer(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the changes (RFC 6902) by which a pod prefers nodes with others of its policy, or without."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    labels = metadata.get("labels") or {}
    policy = (metadata.get("annotations") or {}).get(NODE_POLICY)
    if policy not in POLICIES or labels.get(LABEL) == policy:
        return
    yield {"op": "add", "path": "/metadata/labels", "value": {**labels, LABEL: policy}}
    own = spec.get("topologySpreadConstraints") or []
    if policy == "spread":
        yield _apart([*own, _constraint(policy)])
        return
    if not own:
        # No pod has this label. With any constraint the scheduler leaves out its own, which spread replicas.
        yield _apart([_constraint("none")])
    others = {"labelSelector": {"matchLabels": {LABEL: policy}}, "topologyKey": HOST}
    affinity = dict(spec.get("affinity") or {})
    together = dict(affinity.get("podAffinity") or {})
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    together[preferred] = [*(together.get(preferred) or ()), {"weight": 100, "podAffinityTerm": others}]
    yield {"op": "add", "path": "/spec/affinity", "value": {**affinity, "podAffinity": together}}


def _constraint(policy: str) -> dict[str, Any]:
    selector = {"matchLabels": {LABEL: policy}}
    soft = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return {**soft, "topologyKey": HOST, "labelSelector": selector}


def _apart(constraints: list[dict[str, Any]]) -> dict[str, Any]:
    return {"op": "add", "path": "/spec/topologySpreadConstraints", "value": constraints}
