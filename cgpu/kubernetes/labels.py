# SPDX-License-Identifier: Apache-2.0
"""Labels of a node that say who gives out parts of its cards, and what holds containers to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightkube.resources.core_v1 import Node

from cgpu.kubernetes.names import PLACEMENT_LABEL, SCHEDULE_LABEL, SCHEDULER_LABEL

# The values of the label by which Alibaba's clusters share the GPUs of a node; any other gives them whole.
SLICED, NOT_ISOLATED = ("cgpu", "core_mem"), "share"
Placement = Literal["binpack", "spread"]


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Settings by labels of a node.

    scheduler: the system that decides for its pods, "": Kubernetes' own scheduler. shared: whether that one
    gives out parts of its cards. isolated: whether a part is a slice; else a container has the whole card,
    whatever was counted for it.
    """

    scheduler: str
    shared: bool
    isolated: bool
    placement: Placement


def read_labels(node: Node) -> NodeLabels:
    """Read the labels; without them cards are shared in slices, and filled one after the other."""
    labels = (node.metadata.labels if node.metadata is not None else None) or {}
    schedule = labels.get(SCHEDULE_LABEL)
    scheduler = labels.get(SCHEDULER_LABEL) or ""
    return NodeLabels(
        scheduler,
        shared=not scheduler and schedule in (None, *SLICED, NOT_ISOLATED),
        isolated=schedule != NOT_ISOLATED,
        placement="spread" if labels.get(PLACEMENT_LABEL) == "spread" else "binpack",
    )
