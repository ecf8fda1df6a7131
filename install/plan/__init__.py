# SPDX-License-Identifier: Apache-2.0
"""From the facts of a node and what was asked for to the steps that are missing. Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cgpu.install.node.machine import Node
from cgpu.install.transaction.journal import Journal
from cgpu.install.transaction.steps.file_changes import FileChanges
from cgpu.runtime_config.engines.engine import ContainerEngine

EngineKind = Literal["module", "daemon"]


@dataclass(slots=True)
class PlanContext:
    """What plans are made from. kept: lines about files of ours that were edited since, and stay as they are.

    staging: a folder that may be filled with files on their way to the node.
    """

    root: Path
    node: Node
    record: Journal
    engines: Mapping[str, ContainerEngine]
    staging: Path
    kept: list[str] = field(default_factory=list)

    def is_ours(self, path: str, digest: str | None) -> bool:
        """Return whether the record says that we have put this content at a path."""
        return any(
            change.path == path and change.after == digest
            for step in self.record.steps
            if isinstance(step, FileChanges)
            for change in step.changes
        )

    def is_known(self, path: str) -> bool:
        """Return whether the record has the path as a file of ours."""
        return any(
            change.path == path
            for step in self.record.steps
            if isinstance(step, FileChanges)
            for change in step.changes
        )


def shown(names: Sequence[str]) -> str:
    """Return names for a sentence."""
    return ", ".join(names) if names else "none"
