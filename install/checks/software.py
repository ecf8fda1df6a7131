# SPDX-License-Identifier: Apache-2.0
"""Software of others that an installation needs."""

from __future__ import annotations

from cgpu.install.checks.finding import EngineKind, Finding, ok, problem, skipped, warning
from cgpu.install.node.facts.programs import numbers
from cgpu.install.node.machine import Node

STORE_KEPT = 254
FIRST_LOW_LEVEL = {"runc": (1, 1), "crun": (1, 8)}
# Runtimes that are no engine of their own: settings of something else.
NO_PROGRAM = ("nvidia", "hooks")


def dkms(node: Node) -> list[Finding]:
    """What builds the module, for this kernel and those to come."""
    found = node.software.dkms
    if found is None:
        return problem(
            "dkms", "dkms is not installed: nobody builds the module for a new kernel", "apt-get install dkms"
        )
    return ok("dkms", f"dkms {found.version or ''}".rstrip())


def systemd(node: Node, engine: EngineKind) -> list[Finding]:
    """Who starts the engine, and keeps containers' descriptors while cgpud is away."""
    software = node.software
    if not software.systemd:
        text = "systemd does not run here: start the engine yourself after each boot"
        return warning(
            "systemd", text, "modprobe cgpu_km; cgpu-config-apply" if engine == "module" else "cgpud"
        )
    version = software.systemd_version
    if engine == "daemon" and version is not None and version < STORE_KEPT:
        return warning(
            "systemd",
            f"systemd {version}: before {STORE_KEPT} `systemctl stop cgpud` takes the GPUs of "
            "running containers away; a restart and a crash do not",
            "use systemctl restart cgpud, never stop, while sliced containers run",
        )
    return ok("systemd", f"systemd {version or ''}".rstrip())


def low_level(node: Node) -> list[Finding]:
    """The OCI runtime that does the work below ours."""
    found = node.software.low_level
    names = {one.name for one in found}
    if not names & FIRST_LOW_LEVEL.keys():
        return problem("low-level-runtime", "neither runc nor crun is installed", "apt-get install runc")
    for one in found:
        first = FIRST_LOW_LEVEL.get(one.name)
        if first is not None and one.version is not None and numbers(one.version) < first:
            accepted = ".".join(map(str, first))
            return warning(
                "low-level-runtime",
                f"{one.path}: version {one.version}: expected {accepted} or newer",
                f"install a newer {one.name}",
            )
    return ok("low-level-runtime", ", ".join(f"{one.path} {one.version or ''}".rstrip() for one in found))


def container_engines(node: Node, runtimes: tuple[str, ...]) -> list[Finding]:
    """The container engines that were asked for."""
    missing = [name for name in runtimes if name not in NO_PROGRAM and node.software.engine(name) is None]
    if missing:
        return problem(
            "container-engines",
            f"{', '.join(missing)}: not on this machine",
            f"install it, or leave it out of --runtimes {','.join(runtimes)}",
        )
    there = [f"{one.name} {one.version or ''}".rstrip() for one in node.software.engines]
    if not there:
        return skipped("container-engines", "there is no container engine; cgpu run works without")
    return ok("container-engines", ", ".join(there))
