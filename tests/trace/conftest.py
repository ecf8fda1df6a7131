# SPDX-License-Identifier: Apache-2.0
"""Simulated cards whose calls are recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.conftest import built, make, sim, start
from tests.sim.support import Sim
from tests.trace.support import Recorder

__all__ = ["built", "sim", "start"]


@pytest.fixture(scope="session")
def tools(built: Path) -> Path:
    """Build recorder and replay where they are missing or old, and return the folder."""
    return make("cgpu-recorder", "libcgpu-replay.so")


@pytest.fixture
def recorder(tools: Path, sim: Sim, tmp_path: Path) -> Recorder:
    """Return a recorder of programs that use the simulated cards."""
    return Recorder(sim.mount, tmp_path / "trace.jsonl")
