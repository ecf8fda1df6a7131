# SPDX-License-Identifier: Apache-2.0
"""
Records of cgpu-smi: sizes in bytes, shares in percent of one GPU.

None stands for a value that is missing or reads wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cgpu.client.policies import UNKNOWN, Policy
from cgpu.smi.scheduling import Scheduling


@dataclass(frozen=True)
class Process:
    """A process that holds memory of a slice."""

    pid: int
    memory: int
    """In bytes."""
    name: str | None = None
    """As the kernel has it, in at most 15 characters that the process may choose."""


@dataclass(frozen=True)
class Container:
    """One container's slice of one GPU."""

    directory: str
    """Name in the tree: the first 12 characters of a 64-digit id, the whole id otherwise."""
    id: str
    """The whole id, or the directory's name where the engine does not tell."""
    slice: Mapping[str, int | None]
    """The attributes of cgpu/slice.py by their names."""
    used: int | None
    """Bytes charged to the container."""
    pids: tuple[int, ...]
    """Processes that hold memory on this GPU, as the reader of the tree sees them."""
    engine_time: int | None
    """GPU time since registration in nanoseconds; stays 0 where the engine does not count."""
    read_at: float = 0.0
    """When that was read, in seconds of the monotonic clock."""
    limit: float | None = None
    """Share that policy, weights and priorities promise, if it has work."""
    utilisation: float | None = None
    """Share of GPU time between two samples."""
    name: str | None = None
    """The container engine's name for it."""
    group: str | None = None
    """Its control group, as the engine names it."""
    processes: tuple[Process, ...] = ()
    """The processes of `pids`, with what each holds."""
    peak: int | None = None
    """The most that was charged to the container, in bytes."""
    throttled: int | None = None
    """Nanoseconds in which its share did not let it run."""
    refused: dict[str, int] | None = None
    """How many of its calls were refused, by the reasons of `cgpu.client.stat`."""

    @property
    def allocated(self) -> int | None:
        """The slice's promise, in bytes."""
        return self.slice.get("memsize")

    @property
    def weight(self) -> int | None:
        """The part of GPU time, in units of weight."""
        return self.slice.get("weight")

    @property
    def high_prio(self) -> bool | None:
        """Whether the container goes before those without."""
        high = self.slice.get("highprio")
        return None if high is None else high != 0

    @property
    def has_process(self) -> bool:
        """Whether it is known to use the GPU."""
        return bool(self.pids)


@dataclass(frozen=True)
class Gpu:
    """One GPU and the slices on it."""

    index: int
    uuid: str | None
    model: str | None
    policy: int | None
    max_inst: int | None
    prio_ratio: int | None
    total: int | None
    """Memory of the card, in bytes."""
    containers: tuple[Container, ...]
    scheduling: Scheduling = field(default_factory=Scheduling)
    rule: Policy | None = None
    """The policy, as the engine says it."""
    interval: float | None = None
    """Seconds between the two samples that utilisation is from."""
    hidden: int | None = None
    """Bytes given out to containers that are not among these; None: all are."""
    reserved: int = 0
    """Bytes that are promised to shares and that no container has."""
    left: tuple[tuple[str, int], ...] = ()
    """Removed containers whose memory the driver has not freed, and its bytes."""
    minor: int | None = None
    bus: str | None = None
    """The card's place on the PCI bus, as nvidia-smi writes it."""
    free: int | None = None
    """Memory that the card itself has left, in bytes; None where MIG hides it."""
    drift: int | None = None
    """Bytes that the card lacks beyond what is charged; below 0 where an estimate is too high."""
    mig: bool | None = None
    lost: bool | None = None
    """The driver no longer reaches it."""
    passthrough: int | None = None
    """How many containers have the whole GPU, without a slice."""
    places: int | None = None
    """How many of max_inst are taken, by containers and by shares without one."""
    engine_time: int | None = None
    """GPU time that all slices have had, also those that are gone, in nanoseconds."""
    read_at: float = 0.0
    """When that was read, in seconds of the monotonic clock."""
    utilisation: float | None = None
    """Share of GPU time that all slices had between two samples."""

    @property
    def policy_name(self) -> str:
        """The policy's name, "unknown" where the engine does not say it."""
        return UNKNOWN if self.rule is None else self.rule.name

    @property
    def used(self) -> int | None:
        """Memory of the card that is taken, by whomever, in bytes."""
        return None if self.total is None or self.free is None else max(0, self.total - self.free)

    @property
    def promised(self) -> int:
        """Bytes given out to containers and shares, as far as known."""
        given = sum(container.allocated or 0 for container in self.containers)
        return given + (self.hidden or 0) + self.reserved
