# SPDX-License-Identifier: Apache-2.0
"""The library of core, card and engine."""

from __future__ import annotations

import pytest

from tests.layouts.stage import Library
from tests.shares.chain import load


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return load(tmp_path_factory.mktemp("shares"))
