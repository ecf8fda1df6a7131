# SPDX-License-Identifier: Apache-2.0
"""Compute limits and utilisation, worked out from what the tree says."""

from __future__ import annotations

from dataclasses import replace

from cgpu.smi.model import Container, Gpu

WHOLE = 100.0


def compute_limit(gpu: Gpu, container: Container) -> float:
    """Return the most GPU time that policy and weights leave a container, in percent.

    Under policies 1 and 4 it falls as more containers open the GPU; one that holds nothing there yet sees
    what it would get.
    """
    if container.high_prio:
        return gpu.prio_ratio / sum(other.high_prio for other in gpu.containers)
    if gpu.policy == 0:
        return WHOLE / gpu.max_inst
    if gpu.policy in (1, 4):
        others = sum(bool(other.pids) for other in gpu.containers if other is not container)
        return WHOLE / (others + 1)
    if gpu.policy == 2:
        weights = sum(other.weight for other in gpu.containers)
        return WHOLE * container.weight / weights if weights else 0.0
    if gpu.policy == 3:
        return WHOLE * container.weight / gpu.max_inst
    return WHOLE


def with_limits(gpu: Gpu) -> Gpu:
    """Return the GPU with the compute limit of each container filled in."""
    containers = (replace(one, limit=compute_limit(gpu, one)) for one in gpu.containers)
    return replace(gpu, containers=tuple(containers))


def utilisation(before: Container, after: Container, elapsed: float) -> float | None:
    """Return the share of GPU time between two looks that lie elapsed seconds apart, in percent.

    None when the engine has counted nothing since the container's registration: it may not count at all.
    """
    if not before.engine_time or not after.engine_time or elapsed <= 0:
        return None
    if before.id != after.id or after.engine_time < before.engine_time:
        return None
    return min(WHOLE, WHOLE * (after.engine_time - before.engine_time) / (elapsed * 1e9))


def with_utilisation(before: tuple[Gpu, ...], after: tuple[Gpu, ...], elapsed: float) -> tuple[Gpu, ...]:
    """Return the later look with the utilisation of every container that is in both."""
    known = {(gpu.index, one.directory): one for gpu in before for one in gpu.containers}
    return tuple(
        replace(
            gpu,
            containers=tuple(
                replace(one, utilisation=utilisation(known[key], one, elapsed)) if key in known else one
                for one in gpu.containers
                for key in [(gpu.index, one.directory)]
            ),
        )
        for gpu in after
    )
