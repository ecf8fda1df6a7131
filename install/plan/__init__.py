# SPDX-License-Identifier: Apache-2.0
"""From the facts of a node and what was asked for to the steps that are missing. Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cgpu.install.node.machine import Node
from cgpu.install.transaction.journal import Journal
from cgpu.install.transaction.steps.file_changes import FileChanges
from cgpu.runtime_config.engines.engine import ContainerEngine


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

    def put_at(self, path: str) -> list[str | None]:
        """Return the digests of what the record says that we have put at a path."""
        steps = [step for step in self.record.steps if isinstance(step, FileChanges)]
        return [change.after for step in steps for change in step.changes if change.path == path]
