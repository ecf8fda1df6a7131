# SPDX-License-Identifier: Apache-2.0
"""Daemons whose cards limit cgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.conftest import base, make_daemon
from tests.daemon.harness import serving
from tests.nvml.harness import LimitedDaemon

# A short path that only root may write: the library lies below it; and daemons with ordinary simulated cards.
__all__ = ["base", "make_daemon"]


@pytest.fixture
def make_limited(base: Path) -> Iterator[Callable[..., LimitedDaemon]]:
    """Start a daemon; arguments are those of LimitedDaemon but the first."""
    made: list[LimitedDaemon] = []

    def make(*arguments: str, **options: object) -> LimitedDaemon:
        daemon = LimitedDaemon.__new__(LimitedDaemon)
        made.append(daemon)
        daemon.__init__(base, *arguments, **options)  # type: ignore[misc]
        return daemon

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture(scope="module")
def limited() -> Iterator[LimitedDaemon]:
    """One with two cards, for tests that leave it as they found it."""
    with serving(LimitedDaemon, "T4:2") as running:
        yield running
