# SPDX-License-Identifier: Apache-2.0
"""The fixture of the client's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.support import T4, PlainTree


@pytest.fixture
def tree(tmp_path: Path) -> PlainTree:
    """Return a tree of two T4 cards."""
    return PlainTree(tmp_path).build(T4, T4)
