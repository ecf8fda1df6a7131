# SPDX-License-Identifier: Apache-2.0
"""The steps by which systemd starts the wrapper's server when a container with a slice starts."""

from __future__ import annotations

from cgpu import paths
from cgpu.install.places import SERVER, SERVER_STARTS, program
from cgpu.install.plan import PlanContext
from cgpu.install.plan.engine import units
from cgpu.install.transaction.runner import Runner
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.system import Command, Commands, Unit

PROGRAM = "cgpu-container-runtime-server"
STOPS = f"{SERVER_STARTS} stops for good"
STOP = Command(("systemctl", "stop", SERVER), needed=False)
# A killed systemd, or a server that was started by hand, leaves it.
REMOVE = Command(("rm", "-f", paths.RUNTIME_SOCKET), where=paths.RUNTIME_SOCKET, needed=False)
# The service requires its socket, and so is restarted with it.
AGAIN = Command(("systemctl", "try-restart", SERVER_STARTS), needed=False)


def plan_server(context: PlanContext, runner: Runner) -> list[Plan]:
    """Return the missing steps; none without systemd: starts take a Python of their own. Raises CgpuError."""
    if not context.node.software.systemd:
        return []
    files = units(context, str(program(PROGRAM)), SERVER, SERVER_STARTS)
    if runner.run(("systemctl", "is-enabled", "--quiet", SERVER_STARTS)).status == 0:
        return [*files, Commands(f"{PROGRAM} starts anew", do=(AGAIN,))] if files else []
    return [
        *files,
        # Undone after the socket that would start it again.
        Commands("", undo=(STOP, REMOVE), undo_title=f"{PROGRAM} stops"),
        Unit(SERVER_STARTS, f"the first start of a container starts {PROGRAM}, now and at each boot", STOPS),
    ]
