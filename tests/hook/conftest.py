# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the hook's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hook.support import T4, FakeTree


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    """Return a tree of two T4 cards."""
    return FakeTree(tmp_path).build(T4, T4)
