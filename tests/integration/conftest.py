# SPDX-License-Identifier: Apache-2.0
"""A real engine on the default paths, and the real container engines, for every test here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.engine import Engine, Engines, wrapper_server
from tests.integration.runtimes import Containerd, Docker, Podman, Runc, Runtime

Start = Callable[..., Engine]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder needs root."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.root)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Return the engines of a file's tests, of which nothing is left in the end."""
    made = Engines(tmp_path_factory.mktemp("engines"))
    yield made
    made.stop()


@pytest.fixture
def start(engines: Engines) -> Iterator[Start]:
    """Return what gives an engine with cards and configuration of one's choice; it is empty in the end.

    The engine of the test before is given again where it is the same, unless either asks for `own_engine`.
    """
    yield engines.get
    engines.tidy()


@pytest.fixture
def own_engine(engines: Engines) -> Iterator[None]:
    """Share no engine with other tests: for one that does not leave it as it was."""
    engines.stop()
    yield
    engines.stop()


@pytest.fixture(params=["alone", "served"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test without the wrapper's server, and with it."""
    if request.param == "alone":
        yield
        return
    with wrapper_server():
        yield


@pytest.fixture
def engine(start: Start) -> Engine:
    return start("T4")


@pytest.fixture
def runc(tmp_path: Path) -> Iterator[Runc]:
    directory = tmp_path / "runc"
    directory.mkdir()
    with closing(Runc(directory)) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def dockerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    with closing(Docker(tmp_path_factory.mktemp("docker"))) as runtime:
        yield runtime


@pytest.fixture
def docker(dockerd: Docker) -> Iterator[Docker]:
    """Return that dockerd for one test, whose containers go with it."""
    yield dockerd
    dockerd.clear()


@pytest.fixture(scope="session")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    with closing(Containerd(tmp_path_factory.mktemp("containerd"))) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with closing(Podman(tmp_path_factory.mktemp("podman"))) as runtime:
        yield runtime


@pytest.fixture(params=["runc", "ctr", "docker", "podman"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    fixture = {"ctr": "containerd"}.get(request.param, request.param)
    chosen: Runtime = request.getfixturevalue(fixture)
    return chosen
