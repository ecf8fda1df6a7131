# SPDX-License-Identifier: Apache-2.0
"""Compute limits and utilisation, worked out from what the tree says. docs/scheduling.md has the policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cgpu.client.policies import Policy
from cgpu.smi.model import Container, Gpu

WHOLE = 100.0


def compute_limit(gpu: Gpu, container: Container) -> float | None:
    """Return the share that a container gets while it and all others with processes have work, in percent.

    A container without a process gets its limit as if it had one. None where something that it depends on is
    not known.
    """
    rule = gpu.rule
    if rule is not None and rule.undivided:
        return WHOLE
    if rule is None or gpu.max_inst is None or gpu.prio_ratio is None:
        return None
    if any(one.weight is None or one.high_prio is None for one in gpu.containers):
        return None
    if not container.weight:
        return 0.0
    present = [one for one in gpu.containers if one.weight]
    high, low = ([one for one in present if one.high_prio is side] for side in (True, False))
    high = [one for one in high if one.has_process or one is container]
    if not rule.keeps_idle:
        low = [one for one in low if one.has_process or one is container]
    # Time that is kept for places without a container counts as one more container that has work.
    kept = max(0, gpu.max_inst - units(rule, low)) if rule.keeps_free else 0
    if container.high_prio:
        part = gpu.prio_ratio if low or kept else WHOLE
        return part * units(rule, [container]) / units(rule, high)
    part = WHOLE - gpu.prio_ratio if high else WHOLE
    return part * units(rule, [container]) / (units(rule, low) + kept)


def units(rule: Policy, containers: Sequence[Container]) -> int:
    """Return the sum of what containers count under a policy."""
    return sum(1 if rule.by_number else one.weight or 0 for one in containers)


def with_limits(gpu: Gpu) -> Gpu:
    """Return the GPU with the compute limit of each container filled in."""
    containers = (replace(one, limit=compute_limit(gpu, one)) for one in gpu.containers)
    return replace(gpu, containers=tuple(containers))


def is_counted(gpu: Gpu, container: Container) -> bool:
    """Say whether `usage` means anything. Where the engine does not say: when it is not 0."""
    if container.engine_time is None or gpu.scheduling.measures is False:
        return False
    return gpu.scheduling.measures is True or container.engine_time > 0


def is_measured(gpu: Gpu) -> bool:
    """Say whether the GPU's time is all known: a container that has the GPU whole counts nowhere."""
    if gpu.engine_time is None or gpu.passthrough != 0 or gpu.scheduling.measures is False:
        return False
    return gpu.scheduling.measures is True or gpu.engine_time > 0


def part(before: int | None, after: int | None, elapsed: float) -> float | None:
    """Return the share of GPU time in which a counter has grown, in percent."""
    if before is None or after is None or after < before or elapsed <= 0:
        return None
    return min(WHOLE, WHOLE * (after - before) / (elapsed * 1e9))


def utilisation(before: Container, after: Container) -> float | None:
    """Return the share of GPU time between two samples, in percent."""
    if before.id != after.id:
        return None
    return part(before.engine_time, after.engine_time, after.read_at - before.read_at)


def with_utilisation(before: tuple[Gpu, ...], after: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Return the later sample with the utilisation of every container that is in both."""
    known = {
        (gpu.index, one.directory): one for gpu in before for one in gpu.containers if is_counted(gpu, one)
    }
    cards = {(gpu.index, gpu.uuid): gpu for gpu in before if is_measured(gpu)}
    return tuple(measured(gpu, known, cards.get((gpu.index, gpu.uuid))) for gpu in after)


def measured(gpu: Gpu, known: dict[tuple[int, str], Container], before: Gpu | None = None) -> Gpu:
    """Return a GPU with what it and its containers had since they were seen before, and how long that is."""
    containers, spans = [], []
    for one in gpu.containers:
        earlier = known.get((gpu.index, one.directory))
        share = None if earlier is None else utilisation(earlier, one)
        if earlier is not None and share is not None:
            spans.append(one.read_at - earlier.read_at)
        containers.append(replace(one, utilisation=share))
    whole = None
    if before is not None and is_measured(gpu):
        whole = part(before.engine_time, gpu.engine_time, gpu.read_at - before.read_at)
    return replace(gpu, containers=tuple(containers), utilisation=whole, interval=max(spans, default=None))
