# SPDX-License-Identifier: Apache-2.0
"""A step: something that it makes true on the node, as often as it is done."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cgpu import replace
from cgpu.errors import CgpuError, show
from cgpu.install.node.machine import Node
from cgpu.install.places import on_node
from cgpu.install.runner import TIMEOUT_S, Runner, must
from cgpu.install.store import Store
from cgpu.node_files import FileEdit, below, diff
from cgpu.runtime_config.engines.engine import ContainerEngine


@dataclass(slots=True)
class Context:
    """Objects that the steps of one command share, and the ways in which they change the node.

    show: takes the lines of --dry-run; nothing is changed then, and `edits` has what would be. notes: lines
    for the end, each once, in their order.
    """

    root: Path
    node: Node
    runner: Runner
    store: Store
    engines: Mapping[str, ContainerEngine]
    show: Callable[[str], None] | None = None
    edits: list[FileEdit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def engine(self, name: str) -> ContainerEngine:
        """Return a container engine. Raises CgpuError for one that only another version has."""
        found = self.engines.get(name)
        if found is None:
            raise CgpuError(f"engine {show(name)}: is in the record, and this version does not know it")
        return found

    def note(self, text: str) -> None:
        """Keep a line for the end."""
        if text not in self.notes:
            self.notes.append(text)

    def change(self, step: str, edits: Sequence[FileEdit], brief: str = "") -> None:
        """Edit files. brief: shown by --dry-run in place of new files. Raises CgpuError or OSError."""
        if self.show is None:
            self.store.write(step, edits)
            return
        self.edits += edits
        if brief:
            self.show(f"+ {brief}")
        for edit in edits:
            if not brief or edit.before is not None:
                for line in diff(on_node(self.root, edit.path), edit.before, edit.after):
                    self.show(line)

    def remove(self, path: str) -> None:
        """Remove a file that no record has, if it is there. Raises OSError."""
        place = below(self.root, path)
        if self.show is None:
            replace.remove(place)
        elif place.exists():
            self.show(f"+ rm {path}")

    def run(
        self, *words: str, needed: bool = True, passes: Sequence[int] = (), timeout: float = TIMEOUT_S
    ) -> None:
        """Run a command. needed: False leaves it to the user where it fails; passes: statuses besides 0.

        Raises CgpuError with its last line.
        """
        if self.show is not None:
            self.show(f"+ {shlex.join(words)}")
            return
        try:
            must(self.runner, words, timeout, passes)
        except CgpuError as error:
            if needed:
                raise
            self.note(f"To do: {shlex.join(words)} ({error})")

    def succeeds(self, *words: str) -> bool:
        """Return whether a question to the system is answered by yes. Raises CgpuError."""
        return self.runner.run(words).status == 0


@dataclass(slots=True)
class Step(ABC):
    """One step. about: what of its kind it is, which is all that undo() has to know.

    do() and undo() are right whether the step was done, half done, or not begun.
    """

    kind: ClassVar[str]

    about: str

    @property
    def name(self) -> str:
        """Return the name by which the record keeps the step."""
        return f"{self.kind} {self.about}"

    @property
    @abstractmethod
    def title(self) -> str:
        """Return what it does, for one line of progress."""

    @abstractmethod
    def undo_title(self, context: Context, /) -> str:
        """Return what undo() does; empty where that is nothing. Raises CgpuError."""

    @abstractmethod
    def is_done(self, context: Context, /) -> bool:
        """Return whether what it makes true is true. Changes nothing. Raises CgpuError."""

    @abstractmethod
    def do(self, context: Context, /) -> None:
        """Make it true. Raises CgpuError or OSError."""

    @abstractmethod
    def undo(self, context: Context, /) -> None:
        """Take back what do() has done, and nothing of others. Raises CgpuError or OSError."""
