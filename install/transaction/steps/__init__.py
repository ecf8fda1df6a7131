# SPDX-License-Identifier: Apache-2.0
"""Steps of an installation. Each can be taken and taken back, and either one again without harm.

A plan is a step before anything was looked up that the record needs; `prepare` gives the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from cgpu.install.transaction.context import Context


class Step(Protocol):
    """What the record keeps."""

    @property
    def title(self) -> str:
        """Return what taking it does, for one line of progress."""

    @property
    def undo_title(self) -> str:
        """Return what taking it back does; empty where there is nothing to say."""

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


def load(document: Mapping[str, Any]) -> Step:
    """Return the step that was kept. Raises KeyError, TypeError or ValueError for another document."""
    from cgpu.install.transaction.steps.commands import Commands
    from cgpu.install.transaction.steps.file_changes import FileChanges
    from cgpu.install.transaction.steps.module import LoadModule
    from cgpu.install.transaction.steps.notes import Note
    from cgpu.install.transaction.steps.runtime import Runtime
    from cgpu.install.transaction.steps.units import Unit

    kinds: dict[str, type[Commands | FileChanges | LoadModule | Note | Runtime | Unit]] = {
        "commands": Commands,
        "files": FileChanges,
        "module": LoadModule,
        "note": Note,
        "runtime": Runtime,
        "unit": Unit,
    }
    return kinds[document["kind"]].from_json(document)
