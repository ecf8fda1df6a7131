# SPDX-License-Identifier: Apache-2.0
"""Software of others: what an installation needs, and what shares the same GPUs."""

from __future__ import annotations

from cgpu.client.tree import DAEMON, MODULE
from cgpu.distribution import install_command
from cgpu.install.checks.finding import EngineKind, Finding, ok, problem, skipped, warning
from cgpu.install.node.machine import Node
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.programs import numbers

STORE_KEPT = 254
FIRST_LOW_LEVEL = {"runc": (1, 1), "crun": (1, 8)}
# Runtimes that are no engine of their own: settings of something else.
NO_PROGRAM = tuple(one.name for one in ENGINES.values() if not one.program)
NAMES: dict[EngineKind, str] = {"module": MODULE, "daemon": DAEMON}


def dkms(node: Node) -> list[Finding]:
    """dkms, which builds the module for this kernel and for later ones."""
    found = node.software.dkms
    if found is None:
        text = "dkms is not installed: the module is not built for a new kernel"
        return problem("dkms", text, install_command("dkms", node.software.family))
    return ok("dkms", f"dkms {found.version or ''}".rstrip())


def systemd(node: Node, engine: EngineKind) -> list[Finding]:
    """systemd, which starts the engine and holds containers' descriptors while cgpud is away."""
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
        fix = install_command("runc", node.software.family)
        return problem("low-level-runtime", "neither runc nor crun is installed", fix)
    for one in found:
        first = FIRST_LOW_LEVEL.get(one.name)
        if first is not None and one.version is not None and numbers(one.version) < first:
            expected = ".".join(map(str, first))
            return warning(
                "low-level-runtime",
                f"{one.path}: version {one.version}: expected {expected} or newer",
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


def mps(node: Node) -> list[Finding]:
    """NVIDIA's Multi-Process Service: its server has the memory of all its clients."""
    found = node.sharing.mps
    if not found:
        return ok("mps", "MPS does not run")
    fix = "end its clients, then: echo quit | nvidia-cuda-mps-control"
    text = f"{', '.join(found)}: MPS is on: outside of slices, clients of one server cannot be told apart"
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
            f"{', '.join(node.sharing.device_plugin)}: the vendor's device plugin gives out whole GPUs, "
            "of which OpenCGPU can give out slices at the same time",
            "let only one of the two give out the GPUs of this node",
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
