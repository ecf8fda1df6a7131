# SPDX-License-Identifier: Apache-2.0
"""Units of systemd: their files, and that they are started for good."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cgpu import paths
from cgpu.install.places import (
    DAEMON_UNIT,
    PUBLISHER,
    PUBLISHER_STARTS,
    SERVER,
    SERVER_STARTS,
    has_unit,
)
from cgpu.install.steps.files import Files
from cgpu.install.steps.step import Context, Step

RELOAD = ("systemctl", "daemon-reload")
NOT_LOADED = 5  # the status of systemctl for a unit that systemd does not know
# Each unit that starts another one; the undo stops both.
STARTS = {PUBLISHER_STARTS: PUBLISHER, SERVER_STARTS: SERVER}
# Units that new files restart. A socket's service requires the socket, so systemd restarts both.
RENEWED = {PUBLISHER_STARTS: (PUBLISHER_STARTS, PUBLISHER), SERVER_STARTS: (SERVER_STARTS,)}


@dataclass(slots=True)
class UnitFiles(Files):
    """The files of our units, which systemd has read."""

    kind: ClassVar[str] = "units"

    def do(self, context: Context, /) -> None:
        missing = [edit.path.name for edit in self._missing(context)]
        Files.do(self, context)
        context.run(*RELOAD)
        # A killed run may have written them all.
        names = missing or [Path(path).name for path in self.wanted]
        for unit, renewed in RENEWED.items():
            if {unit, STARTS[unit]} & set(names) and is_enabled(context, unit):
                context.run("systemctl", "try-restart", *renewed, needed=False)
        if DAEMON_UNIT in names and is_active(context, DAEMON_UNIT):
            context.note("To do: have the engine use its new unit: systemctl restart cgpud")

    def undo(self, context: Context, /) -> None:
        """Stop what the user has started of them, remove the files, and have systemd forget them."""
        ours = {step.removeprefix(f"{Unit.kind} ") for step in context.store.steps}
        for name in (Path(path).name for path in context.store.paths_of(self.name)):
            # systemd says of a unit that only others start, too, that it is enabled.
            is_begun = name not in STARTS.values() and is_enabled(context, name)
            if name not in ours and (is_begun or is_active(context, name)):
                _stop(context, name)
        Files.undo(self, context)
        context.run(*RELOAD, needed=False)


@dataclass(slots=True)
class Unit(Step):
    """A unit is started, now and at each boot, and stopped for good. doing: the title."""

    kind: ClassVar[str] = "unit"

    doing: str = ""

    @property
    def title(self) -> str:
        return self.doing

    def undo_title(self, _context: Context, /) -> str:
        return f"{self.about.removesuffix('.service')} stops for good"

    def is_done(self, context: Context, /) -> bool:
        # Other units may have come to their end.
        is_begun = self.about != DAEMON_UNIT or is_active(context, self.about)
        return is_begun and is_enabled(context, self.about)

    def do(self, context: Context, /) -> None:
        context.run("systemctl", "enable", "--now", self.about)
        if self.about == PUBLISHER_STARTS:
            # The publisher ends at once if show_slices is root. Its failure does not fail the installation.
            context.run("systemctl", "start", PUBLISHER, needed=False)

    def undo(self, context: Context, /) -> None:
        _stop(context, self.about)
        if self.about in STARTS:
            context.run("systemctl", "stop", STARTS[self.about], needed=False)
        if self.about == SERVER_STARTS:
            # A killed systemd, or a server that was started by hand, leaves it.
            context.remove(paths.RUNTIME_SOCKET)


def is_enabled(context: Context, name: str) -> bool:
    """Return whether a unit is started at each boot. Raises CgpuError."""
    return context.succeeds("systemctl", "is-enabled", "--quiet", name)


def is_active(context: Context, name: str) -> bool:
    """Return whether a unit runs. Raises CgpuError."""
    return context.succeeds("systemctl", "is-active", "--quiet", name)


def _stop(context: Context, name: str) -> None:
    """Stop a unit for good; one whose file is gone by now may still run."""
    if has_unit(context.root, name):
        context.run("systemctl", "disable", "--now", name)
    else:
        context.run("systemctl", "stop", name, needed=False, passes=(NOT_LOADED,))
