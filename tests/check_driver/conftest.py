# SPDX-License-Identifier: Apache-2.0
"""Simulated cards, and the program that checks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.check_driver.run import PROGRAM
from tests.sim.conftest import built, make, sim, start

__all__ = ["built", "sim", "start"]


@pytest.fixture(scope="session", autouse=True)
def program(built: Path) -> Path:
    """Return the program, built."""
    assert make("cgpu-check-driver") / PROGRAM.name == built / PROGRAM.name
    return PROGRAM
