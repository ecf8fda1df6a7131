# SPDX-License-Identifier: Apache-2.0
"""The report of a node with OpenCGPU, at one moment: doctor, status and the support bundle are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cgpu import paths
from cgpu.config import effective
from cgpu.config import load as config
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.install.checks.finding import EngineKind
from cgpu.install.node import machine as facts
from cgpu.install.node import snapshot, trouble
from cgpu.install.node.facts import files, programs, settings
from cgpu.install.node.facts.settings import Entry
from cgpu.install.node.machine import Node
from cgpu.install.node.snapshot import Snapshot
from cgpu.install.node.trouble import Trouble
from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.tree.mounts import mounted

UNIT = "cgpud.service"
UNIT_PROPERTIES = (
    "ActiveState",
    "UnitFileState",
    "FileDescriptorStorePreserve",
    "NFileDescriptorStore",
    "FileDescriptorStoreMax",
)
CGROUP_MAX = 1 << 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The state of a node; a problem is the line that says why the field before it is None."""

    node: Node
    kind: EngineKind
    wanted: Effective | None = None
    """The configuration that the file says."""
    config_problem: str | None = None
    config_file: str | None = None
    """The file it is read from, where there is one."""
    in_force: Effective | None = None
    in_force_problem: str | None = None
    configured: bool = True
    """Whether the loaded module was given a configuration."""
    snapshot: Snapshot | None = None
    tree_problem: str | None = None
    mounted: bool = False
    """Whether something is mounted at cgpud's tree."""
    status: dict[str, Any] | None = None
    """cgpud's answer to the command `status`."""
    status_problem: str | None = None
    settings: tuple[Entry, ...] = ()
    unit: dict[str, str] = field(default_factory=dict)
    """Properties of cgpud's unit, by `systemctl show`."""
    cgroups: frozenset[str] = frozenset()
    """Cgroups that have processes."""
    troubles: tuple[Trouble, ...] = ()
    troubles_problem: str | None = None


def gather() -> NodeReport:
    """Read this machine. Changes nothing; each question has a limit of some seconds."""
    node = facts.gather()
    root = node.root
    status, status_problem = _try(lambda: control.ask(paths.CONTROL_SOCKET, {"command": "status"}))
    # cgpud may have been started with another file.
    file = str((status or {}).get("config", paths.CONFIG))
    wanted, config_problem = _try(lambda: config.load(file))
    in_force, in_force_problem = _try(lambda: effective.load(paths.EFFECTIVE))
    if not Path(paths.EFFECTIVE).exists() and in_force_problem is None:
        in_force = None
    tree, tree_problem = None, node.ours.problem
    if node.ours.engine is not None:
        tree, tree_problem = _try(lambda: snapshot.take(node.ours.tree))
    cgroups = cgroups_in_use(root)
    troubles, troubles_problem = _try(lambda: trouble.gather(cgroups))
    return NodeReport(
        node=node,
        kind=kind_of(node),
        wanted=wanted,
        config_problem=config_problem,
        config_file=file if Path(file).exists() else None,
        in_force=in_force,
        in_force_problem=in_force_problem,
        configured=not node.ours.module_loaded or effective.is_configured(),
        snapshot=tree,
        tree_problem=tree_problem,
        mounted=bool(mounted(node.ours.tree)),
        status=status,
        status_problem=status_problem,
        settings=settings.gather(root),
        unit=_unit(node),
        cgroups=cgroups,
        troubles=troubles or (),
        troubles_problem=troubles_problem,
    )


def kind_of(node: Node) -> EngineKind:
    """Return which engine the node has, or is to have by what is installed."""
    ours = node.ours
    if ours.module_loaded:
        return "module"
    if ours.daemon_running or ours.engine is not None or ours.unit is not None:
        return "daemon"
    return "module" if node.kernel.release in ours.module_kernels else "daemon"


def cgroups_in_use(root: Path) -> frozenset[str]:
    """Return every cgroup, of each hierarchy, that a process is in."""
    found = set()
    for pid in programs.pids(root):
        text = files.text(root, f"/proc/{pid}/cgroup", CGROUP_MAX) or ""
        found |= {line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2}
    return frozenset(found)


def _try(question: Callable[[], T]) -> tuple[T | None, str | None]:
    try:
        return question(), None
    except CgpuError as error:
        return None, str(error)


def _unit(node: Node) -> dict[str, str]:
    if not node.software.systemd or node.ours.unit is None:
        return {}
    program = programs.find(node.root, "systemctl")
    if program is None:
        return {}
    said = programs.output(str(program), "show", UNIT, f"--property={','.join(UNIT_PROPERTIES)}") or ""
    return parse_unit(said)


def parse_unit(said: str) -> dict[str, str]:
    """Return the properties that `systemctl show` has printed."""
    pairs = (line.partition("=") for line in said.splitlines())
    return {name: value for name, equals, value in pairs if equals and name in UNIT_PROPERTIES}
