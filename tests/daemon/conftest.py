# SPDX-License-Identifier: Apache-2.0
"""Daemons for tests: one for all of a file, or one of a test's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.processes.process_identity import start_time
from tests.daemon.harness import BUILD, Daemon, serving, short_path
from tests.daemon.upgrades import steady_load
from tests.integration.commands import eventually

Drive = Callable[..., None]

# Long enough that a machine with more to do changes channels in a small part of a round.
SLICES = "slice_us: 10000\n"


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path: names of sockets have at most 107 characters."""
    with short_path() as path:
        yield path


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
    with serving(Daemon, "T4:2", SLICES) as running:
        yield running


@pytest.fixture(scope="module")
def steady_program() -> Path:
    """A program that allocates without an end."""
    return steady_load()


@pytest.fixture
def drive(base: Path) -> Iterator[Drive]:
    """Return a function that has a simulated card of a version where the daemon finds its own."""
    servers: list[subprocess.Popen[bytes]] = []

    def serve(
        version: str, layouts: str = "580.142", cards: str = "T4", options: tuple[str, ...] = ()
    ) -> None:
        mount = base / "run" / "sim"
        mount.parent.mkdir(exist_ok=True)
        command: list[str | Path] = [BUILD / "cgpu-sim", "--mount", mount, "--cards", cards]
        servers.append(subprocess.Popen([*command, "--driver", layouts, "--says", version, *options]))
        record = {"pid": servers[-1].pid, "started": start_time(servers[-1].pid), "cards": cards}
        mount.with_name("sim.json").write_text(json.dumps(record))
        eventually((mount / "nvidiactl").exists, "the card is served")

    yield serve
    for server in servers:
        server.terminate()
        server.wait()
