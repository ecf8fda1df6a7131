# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the hook's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu import paths
from tests.client.support import T4
from tests.hook.support import FakeTree, compile_hook


@pytest.fixture(autouse=True)
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the event log in the test's folder; return it."""
    monkeypatch.setattr(paths, "EVENTS", str(tmp_path / "events.log"))
    return tmp_path / "events.log"


@pytest.fixture(scope="session")
def compiled_hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_hook(tmp_path_factory.mktemp("hook"))


@pytest.fixture
def engineless(compiled_hook: Path, tmp_path: Path) -> FakeTree:
    """Return the place of a tree without an engine."""
    return FakeTree(tmp_path, compiled_hook)


@pytest.fixture
def tree(engineless: FakeTree) -> FakeTree:
    """Return a tree of two T4 cards."""
    return engineless.build(T4, T4)
