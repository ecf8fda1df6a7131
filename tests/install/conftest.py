# SPDX-License-Identifier: Apache-2.0
"""What several tests of the node's commands have."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu import paths
from cgpu.install import drain, places


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this test's mark of a node that gives out no slices; its lock is its own, too."""
    path = tmp_path / "draining"
    monkeypatch.setattr(drain, "MARK", str(path))
    monkeypatch.setattr(paths, "DRAINING", str(path))
    monkeypatch.setattr(places, "LOCK", str(tmp_path / "lock"))
    return path
