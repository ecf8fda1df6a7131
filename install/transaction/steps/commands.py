# SPDX-License-Identifier: Apache-2.0
"""Commands, with those that take them back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from cgpu.errors import CgpuError
from cgpu.install.transaction.context import Context
from cgpu.install.transaction.runner import TIMEOUT_S, must
from cgpu.roots import below


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
            context.note(f"left to you: {self.shown()} ({error})")

    def shown(self) -> str:
        """Return it as a shell takes it."""
        return shlex.join(self.words)

    def to_json(self) -> dict[str, Any]:
        """Return it for the record."""
        return {
            "words": list(self.words),
            "where": self.where,
            "needed": self.needed,
            "timeout": self.timeout,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the command that was kept."""
        words = tuple(str(word) for word in document["words"])
        return cls(words, str(document["where"]), bool(document["needed"]), float(document["timeout"]))


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands that do, and commands that undo whatever of them was done. Plan and step."""

    title: str
    do: tuple[Command, ...] = ()
    undo: tuple[Command, ...] = ()
    undo_title: str = ""

    def show(self, _context: Context, /) -> Iterator[str]:
        """Yield the commands as a shell would take them."""
        yield from (f"+ {command.shown()}" for command in self.do)

    def undo_show(self, _context: Context, /) -> Iterator[str]:
        """Yield those that undo."""
        yield from (f"+ {command.shown()}" for command in self.undo)

    def prepare(self, _context: Context, /) -> Self:
        """Return itself."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the step for the record."""
        return {
            "kind": "commands",
            "title": self.title,
            "undo_title": self.undo_title,
            "do": [command.to_json() for command in self.do],
            "undo": [command.to_json() for command in self.undo],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the step that was kept."""
        do, undo = (tuple(map(Command.from_json, document[key])) for key in ("do", "undo"))
        return cls(str(document["title"]), do, undo, str(document["undo_title"]))

    def apply(self, context: Context, /) -> None:
        """Run the commands. Raises CgpuError."""
        for command in self.do:
            command.run(context)

    def revert(self, context: Context, /) -> None:
        """Run those that undo. Raises CgpuError."""
        for command in self.undo:
            command.run(context)
