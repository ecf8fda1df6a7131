# SPDX-License-Identifier: Apache-2.0
"""A node on which steps are taken by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.install.transaction import execute, journal
from cgpu.install.transaction.steps import Context, Plan
from cgpu.install.transaction.steps.file_changes import FilesPlan
from cgpu.node_files import FileEdit
from tests.install.engines import ENGINES
from tests.install.support import System


class Node:
    """A node with a record."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = System(self.root)
        self.notes: list[str] = []

    def context(self) -> Context:
        return Context(self.root, self.system, self.record().store, ENGINES, self.notes)

    def record(self) -> journal.Journal:
        """Return the record as it is on the disk."""
        return journal.load(self.root) or journal.at(self.root)

    def do(self, *plans: Plan) -> None:
        execute.run(self.record(), self.context(), "install", plans, {}, lambda _: None)

    def undo(self) -> None:
        execute.take_back(self.record(), self.context(), lambda _: None)

    def edit(self, name: str, before: bytes | None, after: bytes | None, mode: int = 0o644) -> FilesPlan:
        return FilesPlan(f"edits {name}", (FileEdit(self.root / name, before, after, mode),))


@pytest.fixture
def node(root: Path) -> Node:
    return Node(root)
