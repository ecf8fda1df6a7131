# SPDX-License-Identifier: Apache-2.0
"""A node has one engine."""

from __future__ import annotations

from cgpu.client.tree import DAEMON, MODULE
from cgpu.install.checks.finding import EngineKind, Finding, ok, problem
from cgpu.install.node.machine import Node

NAMES: dict[EngineKind, str] = {"module": MODULE, "daemon": DAEMON}


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
