# SPDX-License-Identifier: Apache-2.0
"""A step: something that it makes true on the node, as often as it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cgpu.errors import CgpuError, show
from cgpu.install.node.machine import Node
from cgpu.install.runner import Runner
from cgpu.install.store import Store
from cgpu.node_files import FileEdit
from cgpu.runtime_config.engines.engine import ContainerEngine


@dataclass(slots=True)
class Context:
    """Objects that the steps of one command share. notes: lines for the end, each once, in their order."""

    root: Path
    node: Node
    runner: Runner
    store: Store
    engines: Mapping[str, ContainerEngine]
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
    def is_done(self, context: Context, /) -> bool:
        """Return whether what it makes true is true. Changes nothing. Raises CgpuError."""

    @abstractmethod
    def show(self, context: Context, /) -> Iterator[str]:
        """Yield the lines that install --dry-run prints. Raises CgpuError."""

    @abstractmethod
    def do(self, context: Context, /) -> None:
        """Make it true. Raises CgpuError or OSError."""

    def edits(self, _context: Context, /) -> Sequence[FileEdit]:
        """Return the files that do() would change. Raises CgpuError."""
        return ()

    def undo_title(self, _context: Context, /) -> str:
        """Return what undo() does to the node as it is now; empty where that is nothing. Raises CgpuError."""
        return ""

    def show_undo(self, _context: Context, /) -> Iterator[str]:
        """Yield the lines that uninstall --dry-run prints. Raises CgpuError."""
        yield from ()

    @abstractmethod
    def undo(self, context: Context, /) -> None:
        """Take back what do() has done, and nothing of others. Raises CgpuError or OSError."""
