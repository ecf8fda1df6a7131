# SPDX-License-Identifier: Apache-2.0
"""The steps by which the container engines get the runtime."""

from __future__ import annotations

from collections.abc import Sequence

from cgpu.edits import FileEdit
from cgpu.errors import CgpuError
from cgpu.install.places import LAUNCHER, on_node
from cgpu.install.plan import PlanContext, shown
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.file_changes import FilesPlan
from cgpu.install.transaction.steps.notes import Note
from cgpu.install.transaction.steps.runtime import RuntimePlan
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired
from cgpu.runtime_config.engines.registry import ENGINES

SYSTEMCTL = "systemctl"


def choose(site: PlanContext, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that --runtimes gives, all engines that are here without it. Raises CgpuError."""
    if given is None:
        return engines(_here(site))
    for name in given:
        if name not in site.editors:
            raise CgpuError(f"--runtimes {name}: expected one of {shown(list(site.editors))}")
        # Settings of an engine that is not named are not read.
        if not site.editors[name].is_present(site.root):
            raise CgpuError(f"--runtimes {name}: is not on this machine; here are {shown(_here(site))}")
    return tuple(dict.fromkeys(given))


def _here(site: PlanContext) -> list[str]:
    return [name for name, editor in site.editors.items() if editor.is_present(site.root)]


def engines(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that need not be asked for."""
    return tuple(name for name in names if name not in ENGINES or not ENGINES[name].by_request)


def plan(site: PlanContext, names: Sequence[str], *, default: bool) -> list[Plan]:
    """Return the steps of those that do not know the runtime yet. Raises CgpuError."""
    steps: list[Plan] = []
    planned: set[object] = set()
    for name in names:
        editor = site.editors[name]
        edits = [
            edit for edit in editor.plan_add(site.root, Desired(LAUNCHER, default)) if edit not in planned
        ]
        planned.update(edits)
        if edits:
            steps += _of_one(site, editor, tuple(edits))
    return steps


def _of_one(site: PlanContext, editor: ContainerEngine, edits: tuple[FileEdit, ...]) -> list[Plan]:
    named = ", ".join(on_node(site.root, edit.path) for edit in edits)
    files = FilesPlan(f"{editor.name}: adds the runtime cgpu to {named}", edits, editor.name)
    reload = editor.reload(site.root)
    if not reload.command:
        return [RuntimePlan(files, ())]
    command = " ".join(reload.command)
    if reload.stops_containers:
        advice = f"{editor.name} has to read its settings anew, which ends its containers: {command}"
        return [RuntimePlan(files, ()), Note(advice, advice)]
    if reload.command[0] == SYSTEMCTL and not site.node.software.systemd:
        advice = f"restart {editor.name}, if it runs: it reads its settings when it starts"
        return [RuntimePlan(files, ()), Note(advice, advice)]
    return [RuntimePlan(files, reload.command)]
