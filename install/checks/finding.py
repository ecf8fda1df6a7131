# SPDX-License-Identifier: Apache-2.0
"""Findings of checks, and the state of a node that they are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "problem", "skipped"]
EngineKind = Literal["module", "daemon"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report.

    name: of the check, stable, for programs. text: what is so. fix: the command, or what to do, empty where
    nothing is to be done.
    """

    name: str
    verdict: Verdict
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The wanted state of a node.

    runtimes: names of container engines, as --runtimes takes them. allow_unknown_driver: the configuration's.
    """

    engine: EngineKind
    runtimes: tuple[str, ...] = ()
    allow_unknown_driver: bool = True


def ok(name: str, text: str) -> list[Finding]:
    """Return one finding that all is well."""
    return [Finding(name, "ok", text)]


def warning(name: str, text: str, fix: str = "") -> list[Finding]:
    """Return one finding that sliced containers start in spite of."""
    return [Finding(name, "warning", text, fix)]


def problem(name: str, text: str, fix: str) -> list[Finding]:
    """Return one finding that keeps sliced containers from starting, or limits from holding."""
    return [Finding(name, "problem", text, fix)]


def skipped(name: str, why: str, fix: str = "") -> list[Finding]:
    """Return one finding that could not be made."""
    return [Finding(name, "skipped", why, fix)]
