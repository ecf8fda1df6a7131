# SPDX-License-Identifier: Apache-2.0
"""Containers that are in trouble which nobody sees."""

from __future__ import annotations

from cgpu.install.checks.finding import Finding, ok, skipped, warning
from cgpu.install.node.report import NodeReport
from cgpu.install.node.trouble import REFUSED, STRANDED

WORDS = {REFUSED: "has stayed exited, as its restart was refused: ", STRANDED: ""}


def restarts(now: NodeReport) -> list[Finding]:
    """Whether containers stay exited whose restart was refused, as while cgpud was away."""
    return _of(now, "refused-restarts", REFUSED, "no container has stayed exited after a refusal")


def stranded(now: NodeReport) -> list[Finding]:
    """Whether containers run on without the GPU that they had."""
    return _of(now, "stranded", STRANDED, "each container that had a GPU has it")


def lines(now: NodeReport) -> list[tuple[str, str]]:
    """Return what is said of each container in trouble, and what helps."""
    return [(f"{one.name}: {WORDS[one.kind]}{one.message}", one.fix) for one in now.troubles]


def _of(now: NodeReport, name: str, kind: str, well: str) -> list[Finding]:
    if now.troubles_problem is not None:
        return skipped(name, now.troubles_problem)
    found = [line for one, line in zip(now.troubles, lines(now), strict=True) if one.kind == kind]
    return [finding for text, fix in found for finding in warning(name, text, fix)] or ok(name, well)
