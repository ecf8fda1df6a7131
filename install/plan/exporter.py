# SPDX-License-Identifier: Apache-2.0
"""The step that gives systemd the unit of cgpu exporter. Whoever has a Prometheus enables it."""

from __future__ import annotations

from cgpu.install.places import EXPORTER, program
from cgpu.install.plan import PlanContext
from cgpu.install.plan.engine import units
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.system import Unit


def plan_exporter(context: PlanContext) -> list[Plan]:
    """Return the missing steps; none without systemd, or where a package has the unit. Raises CgpuError."""
    if not context.node.software.systemd:
        return []
    files = units(context, str(program("cgpu")), f"{EXPORTER}.service")
    # What the user has enabled ends with its file.
    return [*files, Unit(EXPORTER, "", f"{EXPORTER} stops for good", starts=False)] if files else []
