# SPDX-License-Identifier: Apache-2.0
"""Others that share the same GPUs, the other engine among them."""

from __future__ import annotations

from cgpu.client.tree import DAEMON, MODULE
from cgpu.install.checks.finding import EngineKind, Finding, ok, problem, warning
from cgpu.install.node.machine import Node

NAMES: dict[EngineKind, str] = {"module": MODULE, "daemon": DAEMON}


def mps(node: Node) -> list[Finding]:
    """NVIDIA's Multi-Process Service: its server has the memory of all its clients."""
    found = node.sharing.mps
    if not found:
        return ok("mps", "MPS does not run")
    fix = "end its clients, then: echo quit | nvidia-cuda-mps-control"
    text = f"{', '.join(found)}: MPS is on: clients of one server are not told apart, outside of slices"
    if any(" (process " in one for one in found):
        return problem("mps", text, fix)
    left = ", ".join(found)
    return warning("mps", f"{left}: left by MPS, which does not run", f"rm -r {' '.join(found)}")


def hami(node: Node) -> list[Finding]:
    """HAMi: its library is in every container of the node, and its device plugin gives out the same cards."""
    found = node.sharing.hami
    if not found:
        return ok("hami", "HAMi is not there")
    return problem(
        "hami",
        f"{', '.join(found)}: HAMi shares the GPUs of this node, too",
        "take the node out of HAMi (kubectl label node NODE gpu-), and libvgpu.so out of /etc/ld.so.preload",
    )


def time_slicing(node: Node) -> list[Finding]:
    """A device plugin that gives one GPU to several containers by itself."""
    if node.sharing.replicas:
        return problem(
            "time-slicing",
            f"{', '.join(node.sharing.replicas)}: the device plugin gives each GPU out several times",
            "take sharing.timeSlicing and sharing.mps out of the device plugin's configuration for this node",
        )
    if node.sharing.device_plugin:
        return warning(
            "time-slicing",
            f"{', '.join(node.sharing.device_plugin)}: the vendor's device plugin gives GPUs out whole, "
            "which OpenCGPU may give slices of at the same time",
            "let one of both give out the GPUs of this node",
        )
    return ok("time-slicing", "no device plugin gives out GPUs")


def one_engine(node: Node, engine: EngineKind) -> list[Finding]:
    """Whether the other engine is in the way."""
    ours = node.ours
    if engine == "daemon" and ours.module_loaded:
        fix = "end the sliced containers, then: modprobe -r cgpu_km"
        return problem(
            "one-engine", "the kernel module cgpu_km is loaded: cgpud does not start beside it", fix
        )
    if engine == "module" and (ours.engine == DAEMON or ours.daemon_running):
        fix = "end the sliced containers, then: " + (
            "systemctl disable --now cgpud" if ours.unit else "cgpud --stop"
        )
        return problem("one-engine", "cgpud runs: a node has one engine", fix)
    return ok("one-engine", f"{NAMES[engine]} has the node for itself")
