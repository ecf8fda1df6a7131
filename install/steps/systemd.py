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
    on_node,
)
from cgpu.install.runner import must
from cgpu.install.steps.commands import attempt, succeeds
from cgpu.install.steps.files import Files
from cgpu.install.steps.step import Context, Step
from cgpu.node_files import below

NOT_LOADED = 5  # systemctl's status for a unit that systemd does not know
RELOAD = ("systemctl", "daemon-reload")
# A unit that starts another one: that stops with it.
STARTS = {PUBLISHER_STARTS: PUBLISHER, SERVER_STARTS: SERVER}
# What is restarted with new files: the service of a socket requires it, and so is restarted with it.
RENEWED = {PUBLISHER_STARTS: (PUBLISHER_STARTS, PUBLISHER), SERVER_STARTS: (SERVER_STARTS,)}


@dataclass(slots=True)
class UnitFiles(Files):
    """The files of our units, which systemd has read."""

    kind: ClassVar[str] = "units"

    def show(self, context: Context, /) -> Iterator[str]:
        yield from Files.show(self, context)
        yield f"+ {' '.join(RELOAD)}"

    def do(self, context: Context, /) -> None:
        edited = [Path(on_node(context.root, edit.path)).name for edit in self.edits(context)]
        Files.do(self, context)
        must(context.runner, RELOAD)
        # A killed run may have written them all.
        names = edited or [Path(path).name for path in self.wanted]
        for unit, renewed in RENEWED.items():
            if {unit, STARTS[unit]} & set(names) and is_enabled(context, unit):
                attempt(context, ("systemctl", "try-restart", *renewed))
        if DAEMON_UNIT in names and is_active(context, DAEMON_UNIT):
            context.note("To do: have the engine use its new unit: systemctl restart cgpud")

    def show_undo(self, context: Context, /) -> Iterator[str]:
        for name in self._running(context):
            yield f"+ {' '.join(_stop_words(context, name))}"
        yield from Files.show_undo(self, context)
        yield f"+ {' '.join(RELOAD)}"

    def undo(self, context: Context, /) -> None:
        """Stop what the user has started of them, remove the files, and have systemd forget them."""
        for name in self._running(context):
            stop(context, name)
        Files.undo(self, context)
        attempt(context, RELOAD)

    def _running(self, context: Context) -> list[str]:
        """Return units that no step of ours has started, and that somebody else has."""
        ours = {step.removeprefix(f"{Unit.kind} ") for step in context.store.steps}
        names = [Path(path).name for path in context.store.paths_of(self.name)]
        left = [name for name in names if name not in ours]
        return [name for name in left if is_enabled(context, name) or is_active(context, name)]


@dataclass(slots=True)
class Unit(Step):
    """A unit is started, now and at each boot, and stopped for good. doing: the title."""

    kind: ClassVar[str] = "unit"

    doing: str = ""

    @property
    def title(self) -> str:
        return self.doing

    def is_done(self, context: Context, /) -> bool:
        # Other units may have come to their end.
        return is_enabled(context, self.about) and (
            self.about != DAEMON_UNIT or is_active(context, self.about)
        )

    def show(self, _context: Context, /) -> Iterator[str]:
        yield f"+ systemctl enable --now {self.about}"
        if self.about == PUBLISHER_STARTS:
            yield f"+ systemctl start {PUBLISHER}"

    def do(self, context: Context, /) -> None:
        must(context.runner, ("systemctl", "enable", "--now", self.about))
        if self.about == PUBLISHER_STARTS:
            # It ends at once if show_slices is root. What other users see is not worth a failure.
            attempt(context, ("systemctl", "start", PUBLISHER))

    def undo_title(self, _context: Context, /) -> str:
        return f"{self.about.removesuffix('.service')} stops for good"

    def show_undo(self, context: Context, /) -> Iterator[str]:
        yield f"+ {' '.join(_stop_words(context, self.about))}"
        if self.about in STARTS:
            yield f"+ systemctl stop {STARTS[self.about]}"

    def undo(self, context: Context, /) -> None:
        stop(context, self.about)
        if self.about in STARTS:
            attempt(context, ("systemctl", "stop", STARTS[self.about]))
        if self.about == SERVER_STARTS:
            # A killed systemd, or a server that was started by hand, leaves it.
            below(context.root, paths.RUNTIME_SOCKET).unlink(missing_ok=True)


def is_enabled(context: Context, name: str) -> bool:
    """Return whether a unit is started at each boot. Raises CgpuError."""
    return succeeds(context, "systemctl", "is-enabled", "--quiet", name)


def is_active(context: Context, name: str) -> bool:
    """Return whether a unit runs. Raises CgpuError."""
    return succeeds(context, "systemctl", "is-active", "--quiet", name)


def stop(context: Context, name: str) -> None:
    """Stop a unit for good, also where its file is gone by now. Raises CgpuError or OSError."""
    words = _stop_words(context, name)
    if words[1] == "disable":
        must(context.runner, words)
        return
    # systemctl does not disable a unit without a file, though its link may exist and the unit may run.
    for folder in below(context.root, UNITS).glob("*.wants"):
        (folder / name).unlink(missing_ok=True)
    done = context.runner.run(words)
    if done.status not in (0, NOT_LOADED):
        context.note(f"To do: {' '.join(words)} ({done.last_line()})")


def _stop_words(context: Context, name: str) -> tuple[str, ...]:
    has_file = any(below(context.root, f"{folder}/{name}").exists() for folder in (UNITS, *PACKAGE_UNITS))
    return ("systemctl", "disable", "--now", name) if has_file else ("systemctl", "stop", name)
