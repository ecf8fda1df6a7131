# SPDX-License-Identifier: Apache-2.0
"""The steps by which the container engines get the runtime."""

from __future__ import annotations

from collections.abc import Sequence

from cgpu import suggest
from cgpu.errors import CgpuError, show
from cgpu.install.places import LAUNCHER, on_node
from cgpu.install.plan import PlanContext
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.file_changes import FilesPlan
from cgpu.install.transaction.steps.runtime import RuntimePlan
from cgpu.install.transaction.steps.system import Note
from cgpu.node_files import FileEdit
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired
from cgpu.runtime_config.engines.registry import ENGINES

KUBERNETES = ("kubernetes", "k8s", "kubelet", "k3s", "rke2")


def choose(context: PlanContext, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that --runtimes gives, all engines that are here without it. Raises CgpuError."""
    if given is None:
        return engines(_here(context))
    for name in given:
        if name not in context.engines:
            raise CgpuError(f"--runtimes {show(name)}: {_meant(context, name)}")
        # Settings of an engine that is not named are not read.
        if not context.engines[name].is_present(context.root):
            here = ", ".join(_here(context)) or "none"
            raise CgpuError(f"--runtimes {name}: is not on this machine; here are {here}")
    return tuple(dict.fromkeys(given))


def _meant(context: PlanContext, name: str) -> str:
    """Return what is said of a name that is no engine's."""
    known = list(context.engines)
    if not name:
        return "an empty name; expected names with commas between them; without the option: all that are here"
    parts = name.split()
    if len(parts) > 1 and all(part in known for part in parts):
        return f"names have commas between them, and no blanks: {','.join(parts)}"
    if name.lower() in KUBERNETES:
        return "name the container engine of the node; did you mean containerd or crio?"
    meant = suggest.expected(name, known, "see: cgpu install --help")
    return f"there is no such container engine; here are {', '.join(_here(context)) or 'none'}; {meant}"


def _here(context: PlanContext) -> list[str]:
    return [name for name, engine in context.engines.items() if engine.is_present(context.root)]


def engines(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that need not be asked for."""
    return tuple(name for name in names if name not in ENGINES or not ENGINES[name].by_request)


def plan(context: PlanContext, names: Sequence[str], *, default: bool) -> list[Plan]:
    """Return the steps of those that do not know the runtime yet. Raises CgpuError."""
    steps: list[Plan] = []
    planned: set[object] = set()
    for name in names:
        engine = context.engines[name]
        edits = [
            edit for edit in engine.plan_add(context.root, Desired(LAUNCHER, default)) if edit not in planned
        ]
        planned.update(edits)
        if edits:
            steps += _of_one(context, engine, tuple(edits))
    return steps


def _of_one(context: PlanContext, engine: ContainerEngine, edits: tuple[FileEdit, ...]) -> list[Plan]:
    named = ", ".join(on_node(context.root, edit.path) for edit in edits)
    files = FilesPlan(f"{engine.name}: adds the runtime cgpu to {named}", edits, engine.name)
    reload = engine.reload()
    if reload[:1] == ("systemctl",) and not context.node.software.systemd:
        advice = f"restart {engine.name} to load the new runtime"
        return [
            RuntimePlan(files, ()),
            Note(advice, f"restart {engine.name}, which still knows the runtime cgpu"),
        ]
    return [RuntimePlan(files, reload)]
