# SPDX-License-Identifier: Apache-2.0
"""Steps that are commands of the system."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from cgpu.errors import CgpuError
from cgpu.install.runner import TIMEOUT_S
from cgpu.install.steps.step import Context, Step


@dataclass(frozen=True, slots=True)
class Command:
    """One command. needed: False where a failure is only left to the user. passes: statuses besides 0."""

    words: tuple[str, ...]
    needed: bool = True
    passes: tuple[int, ...] = ()
    timeout: float = TIMEOUT_S

    def run(self, context: Context) -> None:
        """Run it. Raises CgpuError with its last line."""
        try:
            done = context.runner.run(self.words, self.timeout)
            if done.status not in (0, *self.passes):
                line = shlex.join(self.words)
                raise CgpuError(f"{line}: exit status {done.status}: {done.last_line()}")
        except CgpuError as error:
            if self.needed:
                raise
            context.note(f"To do: {shlex.join(self.words)} ({error})")

    def shown(self) -> str:
        """Return it as --dry-run prints it."""
        return f"+ {shlex.join(self.words)}"


@dataclass(slots=True)
class Commands(Step):
    """Commands that do, and commands that undo whatever of them was done."""

    @abstractmethod
    def commands(self, context: Context, /) -> Iterator[Command]:
        """Yield what does the step."""

    @abstractmethod
    def undo_commands(self, context: Context, /) -> Iterator[Command]:
        """Yield what takes it back on the node as it is now."""

    def show(self, context: Context, /) -> Iterator[str]:
        yield from (command.shown() for command in self.commands(context))

    def do(self, context: Context, /) -> None:
        for command in self.commands(context):
            command.run(context)

    def show_undo(self, context: Context, /) -> Iterator[str]:
        yield from (command.shown() for command in self.undo_commands(context))

    def undo(self, context: Context, /) -> None:
        for command in self.undo_commands(context):
            command.run(context)


def succeeds(context: Context, *words: str) -> bool:
    """Return whether a question to the system is answered by yes. Raises CgpuError."""
    return context.runner.run(words).status == 0
