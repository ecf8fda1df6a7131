# SPDX-License-Identifier: Apache-2.0
"""Daemons for tests: one for all of a file, or one of a test's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import Daemon


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path: names of sockets have at most 107 characters."""
    path = Path(tempfile.mkdtemp(prefix="cgpud-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def make_daemon(base: Path) -> Iterator[Callable[..., Daemon]]:
    """Start a daemon: cards and configuration as Daemon takes them."""
    made: list[Daemon] = []

    def make(cards: str = "T4", config: str | None = None) -> Daemon:
        made.append(Daemon(base, cards, config))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """A daemon with two T4, for tests that leave it as they found it."""
    base = Path(tempfile.mkdtemp(prefix="cgpud-"))
    running = Daemon(base, "T4:2")
    yield running
    running.close()
    shutil.rmtree(base, ignore_errors=True)
