# SPDX-License-Identifier: Apache-2.0
"""Builds the server and the probe once, and starts servers on temporary mounts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.sim.support import BUILD, REPOSITORY, Sim

Start = Callable[..., Sim]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that start a server: it mounts its nodes, so they need root."""
    for item in items:
        if Path(__file__).parent in item.path.parents and "built" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.root)


def make(*names: str) -> Path:
    """Build which of these are missing or old, and return the folder."""
    command = ["/usr/bin/make", "-C", str(REPOSITORY / "kmod"), *(str(BUILD / name) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return BUILD


@pytest.fixture(scope="session")
def built() -> Path:
    """Build what is missing or old, and return the folder."""
    return make("cgpu-sim", "cgpu-probe", "cgpu-probe32")


@pytest.fixture(scope="module")
def start(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return a function that starts a server with cards and a driver version."""
    started: list[Sim] = []

    def run(cards: str = "T4", version: str = "580.142", *options: str) -> Sim:
        mount = tmp_path_factory.mktemp("sim") / "m"
        process = subprocess.Popen(
            [built / "cgpu-sim", "--mount", mount, "--cards", cards, "--driver", version, *options]
        )
        sim = Sim(mount, process, version)
        started.append(sim)
        eventually(lambda: (mount / "nvidiactl").exists() or process.poll() is not None, "the mount answers")
        assert process.poll() is None, "the server ended at once"
        return sim

    yield run
    for sim in started:
        sim.stop()


@pytest.fixture(scope="module")
def sim(start: Start) -> Sim:
    """Return a server with two T4, shared by the tests of a file; each test leaves its cards empty."""
    return start("T4:2")
