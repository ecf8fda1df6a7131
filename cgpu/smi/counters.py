# SPDX-License-Identifier: Apache-2.0
"""Counters from a GPU's entry `stat`: one read for the GPU and all of its slices."""

from __future__ import annotations

from dataclasses import replace

from cgpu.client.stat import GpuStat, SliceStat
from cgpu.smi.model import Container, Gpu


def with_counters(gpu: Gpu, stat: GpuStat | None) -> Gpu:
    """Return a GPU and its containers with their counters; as they are where the engine has none."""
    if stat is None:
        return gpu
    slices = {one.id: one for one in stat.slices}
    return replace(
        gpu,
        free=None if stat.mig else stat.memfree,
        drift=stat.drift,
        mig=stat.mig != 0,
        lost=stat.lost != 0,
        passthrough=stat.natives,
        places=stat.places,
        engine_time=stat.usage,
        containers=tuple(_counted(one, slices.get(one.id)) for one in gpu.containers),
    )


def _counted(container: Container, stat: SliceStat | None) -> Container:
    if stat is None:
        return container
    # Where the driver counts, `peak` is of one reading a second, and may miss what is used now.
    peak = max(stat.peak, container.used or 0)
    refused = {**stat.refused, **stat.refused_calls}
    return replace(container, peak=peak, throttled=stat.throttled, refused=refused)
