# SPDX-License-Identifier: Apache-2.0
"""What all tests here share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cgpu.install import drain
from cgpu.install.transaction.steps import letting_go

if TYPE_CHECKING:
    from _typeshed import HasFileno


@pytest.fixture(autouse=True, scope="session")
def no_power_cut() -> None:
    """Let nothing wait for the disk, as no test here cuts the power, nor for what does not run."""
    os.fsync = nothing
    letting_go.BLIND_S = 0
    drain.SETTLE_S = 0


def nothing(fd: int | HasFileno) -> None:
    """Do nothing in place of fsync."""
