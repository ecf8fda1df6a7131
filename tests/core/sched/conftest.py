# SPDX-License-Identifier: Apache-2.0
"""The core as a library, for the tests of the scheduler."""

from __future__ import annotations

import ctypes

import pytest

from tests.core.build import build_library
from tests.core.sched.binding import NO_SWITCH, load


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    return load(build_library("no-switch", NO_SWITCH))
