# SPDX-License-Identifier: Apache-2.0
"""Results as text."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kubernetes.steps import Result
from tests.kubernetes.programs import HERE, MODULE_KUBERNETES, VERSIONS, version_in

GIB = 1 << 30
SHOWN = (("scheduler", "kube-scheduler"), ("API server", "kube-apiserver"), ("etcd", "etcd"))


def about(version: str, load: float, minutes: float) -> str:
    """Return what it was measured on. load: the load average before."""
    modules = HERE / "cluster" / VERSIONS.get(version, "go.mod")
    exact = ".".join(map(str, version_in(modules.read_text(), MODULE_KUBERNETES)))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    model = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    return (
        f"Kubernetes {exact}; Linux {platform.release()}, {os.cpu_count()} processors ({model}), "
        f"{pages / GIB:.0f} GiB of memory; load average before: {load:.1f}; {minutes:.0f} minutes"
    )


def table(results: Sequence[Result]) -> str:
    """Return one line for each measurement."""
    head = (
        f"{'':9} {'nodes':>6} {'filled':>7} {'calls/s':>8} {'pods/s':>7} "
        f"{'CPU ms for a pod: scheduler':>28} {'API':>5} {'etcd':>5} "
        f"{'MiB: scheduler':>15} {'API':>6} {'etcd':>6}"
    )
    return "\n".join([head, *map(_line, results)])


def _line(result: Result) -> str:
    step, found = result.step, result.measured
    calls = "no limit" if step.qps.limit is None else str(step.qps.limit)
    usage = [found.usage[name] for _, name in SHOWN]
    cpu = [f"{one.cpu_ms:.1f}" for one in usage]
    memory = [str(one.mib) for one in usage]
    return (
        f"{step.variant:9} {step.nodes:6} {step.filled:7} {calls:>8} {found.rate:7.0f} "
        f"{cpu[0]:>28} {cpu[1]:>5} {cpu[2]:>5} "
        f"{memory[0]:>15} {memory[1]:>6} {memory[2]:>6}"
    )
