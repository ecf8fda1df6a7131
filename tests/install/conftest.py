# SPDX-License-Identifier: Apache-2.0
"""Fixtures that tests of the installer and of the node's commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cgpu import paths
from cgpu.install import drain, places
from cgpu.install.steps import engine
from tests.install.support import make_node, snapshot

if TYPE_CHECKING:
    from _typeshed import HasFileno


@pytest.fixture(autouse=True, scope="session")
def no_power_cut() -> None:
    """Let nothing wait for the disk, as no test here cuts the power, nor for what does not run."""
    os.fsync = nothing
    engine.BLIND_S = 0
    drain.SETTLE_S = 0


def nothing(fd: int | HasFileno) -> None:
    """Do nothing in place of fsync."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a node on which nothing of ours is."""
    return make_node(tmp_path / "node")


@pytest.fixture
def restored(root: Path) -> Iterator[Path]:
    """Return that root; after the test all of the node is as before, to the byte."""
    before = snapshot(root)
    yield root
    assert snapshot(root) == before


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this test's mark of a node that gives out no slices; its lock is its own, too."""
    path = tmp_path / "draining"
    monkeypatch.setattr(drain, "MARK", str(path))
    monkeypatch.setattr(paths, "DRAINING", str(path))
    monkeypatch.setattr(places, "LOCK", str(tmp_path / "lock"))
    return path
