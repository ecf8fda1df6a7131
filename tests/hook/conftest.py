# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the hook's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu import paths
from tests.hook.support import T4, FakeTree


@pytest.fixture(autouse=True)
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the event log in the test's folder; return it."""
    monkeypatch.setattr(paths, "EVENTS", str(tmp_path / "events.log"))
    return tmp_path / "events.log"


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    """Return a tree of two T4 cards."""
    return FakeTree(tmp_path).build(T4, T4)
