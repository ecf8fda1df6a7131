# SPDX-License-Identifier: Apache-2.0
"""What steps work with: the root, commands, the record's store of contents, and the container engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cgpu.errors import CgpuError, show
from cgpu.install.transaction.runner import Runner
from cgpu.install.transaction.store import Store
from cgpu.runtime_config.engines.engine import ContainerEngine


@dataclass(slots=True)
class Context:
    """One run of install or uninstall.

    notes: what is left to the user, or worth to know, in the order it came up; each once.
    """

    root: Path
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
