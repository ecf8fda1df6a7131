# SPDX-License-Identifier: Apache-2.0
"""Steps of an installation. Each can be taken and taken back, and either one again without harm.

A plan is a step before anything was looked up that the record needs; `prepare` gives the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cgpu.errors import CgpuError, show
from cgpu.install.transaction.runner import Runner
from cgpu.install.transaction.store import Store
from cgpu.replace import Meta
from cgpu.runtime_config.engines.engine import ContainerEngine


@dataclass(slots=True)
class Context:
    """What the steps of one run of install or uninstall work with.

    notes: what is left to the user, or worth to know, in the order it came up; each once.
    undone: files as a dry run of the removal has left them so far. A step below finds there what the step
    above it would have restored.
    """

    root: Path
    runner: Runner
    store: Store
    engines: Mapping[str, ContainerEngine]
    notes: list[str] = field(default_factory=list)
    undone: dict[Path, tuple[bytes, Meta] | None] = field(default_factory=dict)

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


class Step(Protocol):
    """What the record keeps."""

    @property
    def title(self) -> str:
        """Return what taking it does, for one line of progress."""

    @property
    def undo_title(self) -> str:
        """Return what taking it back does; empty where there is nothing to say."""

    def announced(self, context: Context, /) -> str:
        """Return undo_title, or what it would leave of the node as it is now. Raises CgpuError."""

    def to_json(self) -> dict[str, Any]:
        """Return the step for the record."""

    def apply(self, context: Context, /) -> None:
        """Take the step. Raises CgpuError or OSError."""

    def revert(self, context: Context, /) -> None:
        """Take it back, whether all, a part or nothing of it was done. Raises CgpuError or OSError."""

    def undo_show(self, context: Context, /) -> Iterator[str]:
        """Yield the lines that uninstall --dry-run prints. Raises CgpuError or OSError."""


class Plan(Protocol):
    """A step to come."""

    @property
    def title(self) -> str:
        """Return what it does, for one line of progress."""

    def show(self, context: Context, /) -> Iterator[str]:
        """Yield the lines that --dry-run prints."""

    def prepare(self, context: Context, /) -> Step:
        """Look up what the record has to keep, and return the step. Raises CgpuError or OSError."""
