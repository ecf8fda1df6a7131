# SPDX-License-Identifier: Apache-2.0
"""Checks of a node: each is a function of its facts and returns findings. They change nothing."""

from __future__ import annotations

from cgpu.install.checks import driver, kernel, software
from cgpu.install.checks.finding import DesiredState, Finding
from cgpu.install.node.machine import Node

__all__ = ["DesiredState", "Finding", "preflight"]


def preflight(node: Node, desired: DesiredState) -> list[Finding]:
    """Return what speaks for and against an engine on this node, before anything is changed."""
    found = [*kernel.machine(node), *kernel.version(node, desired.engine), *kernel.cgroups(node)]
    found += _module(node) if desired.engine == "module" else _daemon(node)
    found += [
        *software.one_engine(node, desired.engine),
        *driver.version(node, allow_unknown=desired.allow_unknown_driver),
        *driver.rows(node),
        *driver.managed(node),
        *driver.firmware(node),
        *driver.mig(node),
        *software.mps(node),
        *software.hami(node),
        *software.time_slicing(node),
        *software.systemd(node, desired.engine),
        *software.low_level(node),
        *software.container_engines(node, desired.runtimes),
    ]
    return found


def _module(node: Node) -> list[Finding]:
    return [
        *kernel.modules(node),
        *kernel.headers(node),
        *kernel.signatures(node),
        *kernel.probes(node),
        *software.dkms(node),
    ]


def _daemon(node: Node) -> list[Finding]:
    return [
        *kernel.seccomp(node),
        *kernel.options(node),
        *kernel.tracing(node),
        *kernel.fuse(node),
    ]
