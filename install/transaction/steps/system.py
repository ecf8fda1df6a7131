# SPDX-License-Identifier: Apache-2.0
"""Steps that are their own plans: commands, the kernel module, units of systemd, notes to the user."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.install.places import PACKAGE_UNITS, UNITS
from cgpu.install.transaction.runner import TIMEOUT_S, must
from cgpu.install.transaction.steps import Context, Step
from cgpu.node_files import below

NOT_LOADED = 5  # systemctl's status for a unit that systemd does not know
MODULE = "cgpu_km"
CORE = "cgpu_core_"
LOADED = "/sys/module"


@dataclass(frozen=True, slots=True)
class SystemStep:
    """Plan and step at once: one that looks nothing up. The record keeps its kind and its fields."""

    kind: ClassVar[str]

    def prepare(self, _context: Context, /) -> Self:
        return self

    def announced(self: Step, _context: Context, /) -> str:
        return self.undo_title

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(**{field.name: document[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Command:
    """One command. where: it is run only while this path is there.

    needed: False for one whose failure is only told, so that it keeps nothing else from being done.
    """

    words: tuple[str, ...]
    where: str = ""
    needed: bool = True
    timeout: float = TIMEOUT_S

    def run(self, context: Context, /) -> None:
        """Run it, where it is to be run. Raises CgpuError."""
        if self.where and not below(context.root, self.where).exists():
            return
        try:
            must(context.runner, self.words, self.timeout)
        except CgpuError as error:
            if self.needed:
                raise
            context.note(f"To do: {self.shown()} ({error})")

    def shown(self) -> str:
        """Return it as a shell takes it."""
        return shlex.join(self.words)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the command that was kept."""
        words = tuple(str(word) for word in document["words"])
        return cls(words, str(document["where"]), bool(document["needed"]), float(document["timeout"]))


@dataclass(frozen=True, slots=True)
class Commands(SystemStep):
    """Commands that do, and commands that undo whatever of them was done."""

    kind: ClassVar[str] = "commands"

    title: str
    do: tuple[Command, ...] = ()
    undo: tuple[Command, ...] = ()
    undo_title: str = ""

    def show(self, _context: Context, /) -> Iterator[str]:
        yield from (f"+ {command.shown()}" for command in self.do)

    def undo_show(self, _context: Context, /) -> Iterator[str]:
        yield from (f"+ {command.shown()}" for command in self.undo)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        do, undo = (tuple(map(Command.from_json, document[key])) for key in ("do", "undo"))
        return cls(str(document["title"]), do, undo, str(document["undo_title"]))

    def apply(self, context: Context, /) -> None:
        for command in self.do:
            command.run(context)

    def revert(self, context: Context, /) -> None:
        for command in self.undo:
            command.run(context)


@dataclass(frozen=True, slots=True)
class LoadModule(SystemStep):
    """Loads cgpu_km, which brings its core; unloads it with whatever core an upgrade has brought since."""

    kind: ClassVar[str] = "module"
    title: ClassVar[str] = "loads cgpu_km"
    undo_title: ClassVar[str] = "unloads cgpu_km"

    def show(self, _context: Context, /) -> Iterator[str]:
        yield f"+ modprobe {MODULE}"

    def undo_show(self, context: Context, /) -> Iterator[str]:
        yield from (f"+ rmmod {name}" for name in loaded(context))
        if _describes_module(context):
            yield f"+ rm {paths.CDI_DEVICES}"

    def apply(self, context: Context, /) -> None:
        must(context.runner, ("modprobe", MODULE))

    def revert(self, context: Context, /) -> None:
        # Not modprobe -r: it would unload NVIDIA's idle driver, too.
        for name in loaded(context):
            must(context.runner, ("rmmod", name))
        below(context.root, paths.UPGRADING).unlink(missing_ok=True)
        if _describes_module(context):
            below(context.root, paths.CDI_DEVICES).unlink()


def _describes_module(context: Context) -> bool:
    """Return whether container engines still find the GPUs as cgpu-config-apply has described them.

    A cgpud that runs has made that description its own.
    """
    is_daemon = below(context.root, paths.CONTROL_SOCKET).exists()
    return below(context.root, paths.CDI_DEVICES).exists() and not is_daemon


def loaded(context: Context) -> list[str]:
    """Return our modules that are loaded, in the order in which they can be unloaded."""
    folder = below(context.root, LOADED)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [*sorted(name for name in names if name.startswith(CORE)), *([MODULE] if MODULE in names else [])]


@dataclass(frozen=True, slots=True)
class Unit(SystemStep):
    """A unit of systemd is started for good, and stopped for good, also when its file is gone by then.

    name: that of its file, where .service may be left out. starts: False for a unit that the user starts, and
    that is only stopped.
    """

    kind: ClassVar[str] = "unit"

    name: str
    title: str
    undo_title: str
    starts: bool = True

    @property
    def _file(self) -> str:
        return self.name if self.name.endswith((".path", ".socket")) else f"{self.name}.service"

    def _systemctl(self, *words: str) -> tuple[str, ...]:
        return ("systemctl", *words, self._file)

    def show(self, _context: Context, /) -> Iterator[str]:
        if self.starts:
            yield f"+ {' '.join(self._systemctl('enable', '--now'))}"

    def undo_show(self, context: Context, /) -> Iterator[str]:
        words = ("disable", "--now") if self._has_file(context.root) else ("stop",)
        yield f"+ {' '.join(self._systemctl(*words))}"

    def apply(self, context: Context, /) -> None:
        if self.starts:
            must(context.runner, self._systemctl("enable", "--now"))

    def revert(self, context: Context, /) -> None:
        if self._has_file(context.root):
            must(context.runner, self._systemctl("disable", "--now"))
            return
        # systemctl does not disable a unit without a file, though its link may exist and the unit may run.
        for target in below(context.root, UNITS).glob("*.wants"):
            (target / self._file).unlink(missing_ok=True)
        stop = self._systemctl("stop")
        done = context.runner.run(stop)
        if done.status not in (0, NOT_LOADED):
            context.note(f"To do: {' '.join(stop)} ({done.last_line()})")

    def _has_file(self, root: Path) -> bool:
        return any(below(root, f"{place}/{self._file}").exists() for place in (UNITS, *PACKAGE_UNITS))


@dataclass(frozen=True, slots=True)
class Note(SystemStep):
    """A step that the user has to take. do: now; undo: when the installation is taken back.

    It has no title: notes are said at the end.
    """

    kind: ClassVar[str] = "note"
    title: ClassVar[str] = ""
    undo_title: ClassVar[str] = ""

    do: str
    undo: str = ""

    def show(self, _context: Context, /) -> Iterator[str]:
        if self.do:
            yield f"To do: {self.do}"

    def undo_show(self, _context: Context, /) -> Iterator[str]:
        if self.undo:
            yield f"To do: {self.undo}"

    def apply(self, context: Context, /) -> None:
        for line in self.show(context):
            context.note(line)

    def revert(self, context: Context, /) -> None:
        for line in self.undo_show(context):
            context.note(line)
