# SPDX-License-Identifier: Apache-2.0
"""The publisher, by which users who are not root see slices."""

from __future__ import annotations

from pathlib import Path

from cgpu import paths
from cgpu.install.checks.finding import Finding, ok, skipped, warning
from cgpu.install.node.report import NodeReport
from cgpu.install.places import PUBLISHER, PUBLISHER_STARTS, has_unit
from cgpu.node_files import below
from cgpu.smi import publish

NAME = "slices-published"
START = f"systemctl enable --now {PUBLISHER_STARTS}; systemctl restart {PUBLISHER}"
BY_HAND = "have it run, now and after each boot: cgpu-smi --publish"


def published(now: NodeReport) -> list[Finding]:
    """Whether users who are not root see what show_slices says."""
    if now.in_force is None or now.node.ours.engine is None:
        return skipped(NAME, "no engine answers, or no configuration is in force")
    shown = now.in_force.show_slices
    if shown == publish.ROOT:
        return ok(NAME, "only root sees slices (show_slices: root)")
    file = f"{paths.PUBLISHED}/{publish.EVERYONE}"
    age = publish.age(below(now.node.root, paths.PUBLISHED))
    if age is None:
        return warning(NAME, f"show_slices is {shown}, but nothing publishes slices in {file}", _fix(now))
    if age > publish.OLD_S:
        text = f"show_slices is {shown}, but {file} is {age:.0f} s old: cgpu-smi shows it to no user"
        return warning(NAME, text, _fix(now))
    return ok(NAME, f"users see slices (show_slices: {shown})")


def has_units(root: Path) -> bool:
    """Return whether systemd has the units that start cgpu-smi --publish."""
    return has_unit(root, PUBLISHER) and has_unit(root, PUBLISHER_STARTS)


def _fix(now: NodeReport) -> str:
    if not now.node.software.systemd:
        return BY_HAND
    return START if has_units(now.node.root) else "cgpu install"
