# SPDX-License-Identifier: Apache-2.0
"""Checks of a node: each is a function of its facts and returns findings. They change nothing."""

from __future__ import annotations

from cgpu.install.checks import driver, kernel, other_engine, sharing, software
from cgpu.install.checks.finding import Finding, Wish
from cgpu.install.node.machine import Node

__all__ = ["Finding", "Wish", "preflight"]


def preflight(node: Node, wish: Wish) -> list[Finding]:
    """Return what speaks for and against an engine on this node, before anything is changed."""
    found = [*kernel.machine(node), *kernel.version(node, wish.engine), *kernel.cgroups(node)]
    found += _module(node) if wish.engine == "module" else _daemon(node)
    found += [
        *other_engine.one_engine(node, wish.engine),
        *driver.version(node, allow_unknown=wish.allow_unknown_driver),
        *driver.managed(node),
        *driver.firmware(node),
        *driver.mig(node),
        *sharing.mps(node),
        *sharing.hami(node),
        *sharing.time_slicing(node),
        *software.systemd(node, wish.engine),
        *software.low_level(node),
        *software.container_engines(node, wish.runtimes),
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
