# SPDX-License-Identifier: Apache-2.0
"""Each document's commands are typed in their order on a machine with engines, and do what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.commands import document
from tests.docs.node import Node
from tests.docs.run import SCENARIOS, carry_out

README = "README.md"
pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def node(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(repository, tmp_path_factory.mktemp("image"))
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("name", SCENARIOS)
def test_document(node: Node, repository: Path, name: str) -> None:
    """A document's commands work as it says, on a machine where nothing of ours is set up."""
    if name != README:
        node.install()
    node.reset()
    wrong = carry_out(node, document(repository, name), SCENARIOS[name])
    assert not wrong, "\n".join(wrong)
