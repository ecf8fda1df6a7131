# SPDX-License-Identifier: Apache-2.0
"""Daemons whose cards limit cgroups."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import Daemon
from tests.nvml.harness import LimitedDaemon


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path that only root may write: the library lies below it."""
    path = Path(tempfile.mkdtemp(prefix="cgpud-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


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


@pytest.fixture
def make_daemon(base: Path) -> Iterator[Callable[[], Daemon]]:
    """Start a daemon with ordinary simulated cards."""
    made: list[Daemon] = []

    def make() -> Daemon:
        made.append(Daemon(base))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture(scope="module")
def limited() -> Iterator[LimitedDaemon]:
    """One with two cards, for tests that leave it as they found it."""
    base = Path(tempfile.mkdtemp(prefix="cgpud-"))
    running = LimitedDaemon(base, "T4:2")
    yield running
    running.close()
    shutil.rmtree(base, ignore_errors=True)
