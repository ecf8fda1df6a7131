# SPDX-License-Identifier: Apache-2.0
"""The steps by which systemd starts cgpu-smi --publish when show_slices asks for that."""

from __future__ import annotations

from cgpu.install.places import PUBLISHER, PUBLISHER_STARTS, program
from cgpu.install.plan import PlanContext
from cgpu.install.plan.engine import units
from cgpu.install.transaction.runner import Runner
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.system import Command, Commands, Unit

# What users who are not root see is not worth an installation that fails.
STOPS = f"{PUBLISHER_STARTS} stops for good"
STOP = Command(("systemctl", "stop", PUBLISHER), needed=False)
START = Command(("systemctl", "start", PUBLISHER), needed=False)
AGAIN = Command(("systemctl", "try-restart", PUBLISHER_STARTS, PUBLISHER), needed=False)


def plan_publisher(context: PlanContext, runner: Runner) -> list[Plan]:
    """Return the missing steps; none without systemd, where doctor says what to start. Raises CgpuError."""
    if not context.node.software.systemd:
        return []
    files = units(context, str(program("cgpu-smi")), PUBLISHER, PUBLISHER_STARTS)
    if runner.run(("systemctl", "is-enabled", "--quiet", PUBLISHER_STARTS)).status == 0:
        return [*files, Commands("cgpu-smi --publish starts anew", do=(AGAIN,))] if files else []
    return [
        *files,
        # Undone after the unit that would start it again.
        Commands("", undo=(STOP,), undo_title="cgpu-smi --publish stops"),
        Unit(PUBLISHER_STARTS, "show_slices starts cgpu-smi --publish, now and at each boot", STOPS),
        Commands("cgpu-smi --publish starts, and ends if show_slices is root", do=(START,)),
    ]
