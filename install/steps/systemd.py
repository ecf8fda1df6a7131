# SPDX-License-Identifier: Apache-2.0
"""Units of systemd: their files, and that they are started for good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cgpu import paths
from cgpu.install.places import (
    DAEMON_UNIT,
    PACKAGE_UNITS,
    PUBLISHER,
    PUBLISHER_STARTS,
    SERVER,
    SERVER_STARTS,
    UNITS,
)
from cgpu.install.steps.commands import Command, Commands, succeeds
from cgpu.install.steps.files import Files
from cgpu.install.steps.step import Context
from cgpu.node_files import below

RELOAD = Command(("systemctl", "daemon-reload"))
FORGET = Command(RELOAD.words, needed=False)
NOT_LOADED = 5  # the status of systemctl for a unit that systemd does not know
# Each unit that starts another one; the undo stops both.
STARTS = {PUBLISHER_STARTS: PUBLISHER, SERVER_STARTS: SERVER}
# Units that new files restart. A socket's service requires the socket, so systemd restarts both.
RENEWED = {PUBLISHER_STARTS: (PUBLISHER_STARTS, PUBLISHER), SERVER_STARTS: (SERVER_STARTS,)}


@dataclass(slots=True)
class UnitFiles(Files):
    """The files of our units, which systemd has read."""

    kind: ClassVar[str] = "units"

    def show(self, context: Context, /) -> Iterator[str]:
        yield from Files.show(self, context)
        yield RELOAD.shown()

    def do(self, context: Context, /) -> None:
        edited = [edit.path.name for edit in self.edits(context)]
        Files.do(self, context)
        RELOAD.run(context)
        # A killed run may have written them all.
        names = edited or [Path(path).name for path in self.wanted]
        for unit, renewed in RENEWED.items():
            if {unit, STARTS[unit]} & set(names) and is_enabled(context, unit):
                Command(("systemctl", "try-restart", *renewed), needed=False).run(context)
        if DAEMON_UNIT in names and is_active(context, DAEMON_UNIT):
            context.note("To do: have the engine use its new unit: systemctl restart cgpud")

    def show_undo(self, context: Context, /) -> Iterator[str]:
        yield from (command.shown() for command in self._stops(context))
        yield from Files.show_undo(self, context)
        yield FORGET.shown()

    def undo(self, context: Context, /) -> None:
        """Stop what the user has started of them, remove the files, and have systemd forget them."""
        for command in self._stops(context):
            command.run(context)
        Files.undo(self, context)
        FORGET.run(context)

    def _stops(self, context: Context) -> Iterator[Command]:
        """Yield what stops units that no step of ours has started, and that somebody else has."""
        ours = {step.removeprefix(f"{Unit.kind} ") for step in context.store.steps}
        for name in (Path(path).name for path in context.store.paths_of(self.name)):
            # systemd says of a unit that only others start, too, that it is enabled.
            is_begun = name not in STARTS.values() and is_enabled(context, name)
            if name not in ours and (is_begun or is_active(context, name)):
                yield stop(context, name)


@dataclass(slots=True)
class Unit(Commands):
    """A unit is started, now and at each boot, and stopped for good. doing: the title."""

    kind: ClassVar[str] = "unit"

    doing: str = ""

    @property
    def title(self) -> str:
        return self.doing

    def is_done(self, context: Context, /) -> bool:
        # Other units may have come to their end.
        is_begun = self.about != DAEMON_UNIT or is_active(context, self.about)
        return is_begun and is_enabled(context, self.about)

    def commands(self, _context: Context, /) -> Iterator[Command]:
        yield Command(("systemctl", "enable", "--now", self.about))
        if self.about == PUBLISHER_STARTS:
            # The publisher ends at once if show_slices is root. Its failure does not fail the installation.
            yield Command(("systemctl", "start", PUBLISHER), needed=False)

    def undo_title(self, _context: Context, /) -> str:
        return f"{self.about.removesuffix('.service')} stops for good"

    def undo_commands(self, context: Context, /) -> Iterator[Command]:
        yield stop(context, self.about)
        if self.about in STARTS:
            yield Command(("systemctl", "stop", STARTS[self.about]), needed=False)

    def undo(self, context: Context, /) -> None:
        Commands.undo(self, context)
        # systemctl does not disable a unit without a file, though its link may exist.
        for folder in below(context.root, UNITS).glob("*.wants"):
            (folder / self.about).unlink(missing_ok=True)
        if self.about == SERVER_STARTS:
            # A killed systemd, or a server that was started by hand, leaves it.
            below(context.root, paths.RUNTIME_SOCKET).unlink(missing_ok=True)


def is_enabled(context: Context, name: str) -> bool:
    """Return whether a unit is started at each boot. Raises CgpuError."""
    return succeeds(context, "systemctl", "is-enabled", "--quiet", name)


def is_active(context: Context, name: str) -> bool:
    """Return whether a unit runs. Raises CgpuError."""
    return succeeds(context, "systemctl", "is-active", "--quiet", name)


def stop(context: Context, name: str) -> Command:
    """Return what stops a unit for good; one whose file is gone by now may still run."""
    has_file = any(below(context.root, f"{folder}/{name}").exists() for folder in (UNITS, *PACKAGE_UNITS))
    words = ("disable", "--now") if has_file else ("stop",)
    return Command(("systemctl", *words, name), needed=has_file, passes=() if has_file else (NOT_LOADED,))
