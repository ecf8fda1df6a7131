# SPDX-License-Identifier: Apache-2.0
"""The steps of an installation, and how they are found by the names that the record keeps."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.install.steps.engine import Engine
from cgpu.install.steps.files import Files
from cgpu.install.steps.module import Build, Load
from cgpu.install.steps.step import Step
from cgpu.install.steps.systemd import Unit, UnitFiles

KINDS: dict[str, type[Step]] = {step.kind: step for step in (Build, Engine, Files, Load, Unit, UnitFiles)}


def named(name: str) -> Step:
    """Return the step of a name, to be taken back. Raises CgpuError for one of another version."""
    kind, _, about = name.partition(" ")
    if kind not in KINDS:
        raise CgpuError(f"step {show(name)}: is in the record, and this version does not know it")
    return KINDS[kind](about)
