# SPDX-License-Identifier: Apache-2.0
"""Upgrades of a daemon of one's own, and programs that allocate throughout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgpu.install.commands.upgrade import daemon as upgrade_daemon
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.program import Program, own
from tests.daemon.harness import Daemon, built

FIGURES = re.compile(r"steady calls=(\d+) failed=(\d+) longest_us=(\d+)")


def steady_load() -> Path:
    """Return the program that allocates and frees without an end."""
    return built("steady")


def upgrade(daemon: Daemon, program: Program | None = None, *, rehearse: bool = False) -> dict[str, Any]:
    """Have a program take over, this version's unless one is given. Raises CgpuError with the reason."""
    places = Places(daemon.run)
    running = upgrade_daemon.running(places)
    assert running is not None
    return upgrade_daemon.hot(places, running, program or own(), rehearse=rehearse)


@dataclass(frozen=True, slots=True)
class Figures:
    """Calls since the last look, how many failed, and how long the longest took."""

    calls: int
    failed: int
    longest_ms: float


class Steady:
    """A program that allocates and frees without an end."""

    def __init__(self, daemon: Daemon, seed: int, slices: str, every_us: int) -> None:
        program = steady_load()
        self.sliced = daemon.slice(seed, slices, str(every_us), program=program, until="steady begins")

    def look(self) -> Figures:
        self.sliced.go_on()
        found = FIGURES.match(self.sliced.line("steady calls"))
        assert found is not None
        calls, failed, longest = (int(one) for one in found.groups())
        return Figures(calls, failed, longest / 1000)
