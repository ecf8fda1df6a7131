# SPDX-License-Identifier: Apache-2.0
"""The daemon engine: a unit of systemd that runs cgpud, or a note to the user where there is no systemd."""

from __future__ import annotations

from dataclasses import replace

from cgpu.errors import CgpuError
from cgpu.install.places import PACKAGE_UNITS, UNITS, program
from cgpu.install.plan import PlanContext
from cgpu.install.plan.own_files import plan as own_file
from cgpu.install.plan.own_files import unit as unit_text
from cgpu.install.transaction.runner import Runner
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.system import Command, Commands, Note, Unit
from cgpu.roots import below

UNIT = "cgpud.service"
RELOAD = Command(("systemctl", "daemon-reload"))
TRY = "without a GPU, to try it: "


def plan(context: PlanContext, runner: Runner) -> list[Plan]:
    """Return the missing steps. Raises CgpuError."""
    cgpud = str(program("cgpud"))
    has_driver = context.node.driver.loaded is not None
    trial = "" if has_driver else f"; {TRY}{cgpud} --simulate T4"
    if not context.node.software.systemd:
        if context.node.ours.engine == "cgpud":
            return []
        return [Note(f"start the engine, now and after each boot: {cgpud}{trial}")]
    steps = unit(context, "cgpud", cgpud)
    if not has_driver:
        when = "once NVIDIA's driver is installed: systemctl enable --now cgpud"
        stops = replace(starts("cgpud", ""), starts=False)
        return [*steps, *([stops] if steps else []), Note(f"start the engine {when}{trial}")]
    is_active = runner.run(("systemctl", "is-active", "--quiet", UNIT)).status == 0
    if context.node.ours.engine == "cgpud" and not is_active:
        raise CgpuError(
            "cgpud runs, and not by systemd: end it with cgpud --stop, then run the same command again"
        )
    if is_active and runner.run(("systemctl", "is-enabled", "--quiet", UNIT)).status == 0:
        again = [Note("have the engine use its new unit: systemctl restart cgpud")] if steps else []
        return [*steps, *again]
    return [*steps, starts("cgpud", "cgpud starts, now and at each boot")]


def unit(context: PlanContext, name: str, command: str) -> list[Plan]:
    """Return the steps that give systemd a unit; none where a package or an earlier run has put it there."""
    in_package = any(below(context.root, f"{folder}/{name}.service").exists() for folder in PACKAGE_UNITS)
    if in_package and command.startswith("/usr/bin/"):
        return []
    path = f"{UNITS}/{name}.service"
    files = own_file(context, path, unit_text(name, command), f"makes {path}")
    if not files:
        return []
    forget = Commands("", undo=(replace(RELOAD, needed=False),), undo_title="systemd forgets the unit")
    return [forget, *files, Commands("systemd reads its units", do=(RELOAD,))]


def starts(name: str, title: str) -> Unit:
    """Return the step that starts a unit for good."""
    return Unit(name, title, f"{name} stops for good")
