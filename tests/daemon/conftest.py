# SPDX-License-Identifier: Apache-2.0
"""Daemons for tests: one for all of a file, or one of a test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.program import Program
from tests.daemon import versions
from tests.daemon.harness import Daemon, Sliced, serve_cards, serving, short_path

Drive = Callable[..., None]
MakeDaemon = Callable[..., Daemon]
Hold = Callable[..., Sliced]

# Long enough that a machine with more to do changes channels in a small part of a round.
SLICES = "slice_us: 10000\n"

# Tests of parts, which need no daemon.
PARTS = (
    "callers",
    "cdi",
    "control",
    "filters",
    "lock",
    "notify",
    "programs",
    "settings",
    "simulate",
    "unit",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that start daemons or look into other processes: they need root."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.stem.removeprefix("test_") not in PARTS:
            item.add_marker(pytest.mark.root)


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path: names of sockets have at most 107 characters."""
    with short_path() as path:
        yield path


@pytest.fixture
def make_daemon(base: Path) -> Iterator[MakeDaemon]:
    made: list[Daemon] = []

    def make(cards: str = "T4", config: str | None = None) -> Daemon:
        made.append(Daemon(base, cards, config))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def fresh(make_daemon: MakeDaemon) -> Daemon:
    return make_daemon()


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """A daemon with two T4, for tests that leave it as they found it."""
    with serving(Daemon, "T4:2", SLICES) as running:
        yield running


@pytest.fixture(scope="module")
def newer(others: Path) -> Program:
    """A newer version with the same layout of the state."""
    return versions.build(others, "0.2.0")


@pytest.fixture(scope="module")
def converting(others: Path) -> Program:
    """A newer version with another layout, which can read the one before."""
    return versions.build(others, "0.3.0", "-DCORE_VERSION=2u -DCORE_CONVERTS_FROM=1u")


@pytest.fixture
def holding() -> Iterator[Hold]:
    """Return what starts the probe in a slice and waits until it holds what it has; it ends with the test."""
    held: list[Sliced] = []

    def start(daemon: Daemon, gpus: str, *words: str, seed: int = 2, inside: Sliced | None = None) -> Sliced:
        words = (*words, "count", "hold")
        sliced = daemon.enter(inside, *words) if inside else daemon.slice(seed, gpus, *words)
        held.append(sliced)
        sliced.line("count")
        return sliced

    yield start
    for sliced in held:
        if sliced.process.poll() is None:
            sliced.finish("\n")


@pytest.fixture
def drive(base: Path) -> Iterator[Drive]:
    """Return a function that has a simulated card of a version where the daemon finds its own."""
    servers: list[subprocess.Popen[bytes]] = []

    def serve(
        version: str, layouts: str = "580.142", cards: str = "T4", options: tuple[str, ...] = ()
    ) -> None:
        servers.append(serve_cards(base / "run", cards, layouts, "--says", version, *options))

    yield serve
    for server in servers:
        server.terminate()
        server.wait()
