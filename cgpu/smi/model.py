# SPDX-License-Identifier: Apache-2.0
"""What cgpu-smi knows: plain records, sizes in bytes, shares in percent of one GPU."""

from __future__ import annotations

from dataclasses import dataclass

POLICIES = (
    "fair share",
    "preemptive",
    "weight preemptive",
    "fixed percentage",
    "soft",
    "native",
)


@dataclass(frozen=True)
class Container:
    """One container's slice of one GPU."""

    directory: str
    """Name in the tree: the first 12 characters of a 64-digit id, the whole id otherwise."""
    id: str
    """The whole id, or the directory's name where the engine does not tell."""
    weight: int
    high_prio: bool
    allocated: int
    """What the slice promises, in bytes."""
    used: int
    """What is charged to the container, in bytes."""
    pids: tuple[int, ...]
    """Processes that hold memory on this GPU, as the reader of the tree sees them."""
    engine_time: int
    """GPU time since registration in nanoseconds; stays 0 where the engine does not count."""
    limit: float = 100.0
    """Compute limit that follows from policy and weights."""
    utilisation: float | None = None
    """Share of GPU time between two looks; None when it is not known."""
    name: str | None = None
    """What the container engine calls it."""


@dataclass(frozen=True)
class Gpu:
    """One GPU and the slices on it."""

    index: int
    uuid: str
    model: str
    policy: int
    max_inst: int
    prio_ratio: int
    total: int
    """Memory of the card, in bytes."""
    containers: tuple[Container, ...]

    @property
    def promised(self) -> int:
        """Bytes given out to containers."""
        return sum(container.allocated for container in self.containers)

    @property
    def policy_name(self) -> str:
        """The policy in words."""
        return POLICIES[self.policy] if 0 <= self.policy < len(POLICIES) else "unknown"
