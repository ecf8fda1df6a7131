# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the wrapper's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime_config.engines.nodes import Machine
from tests.runtime_config.oci_runtime.served import Served, build_launcher
from tests.runtime_config.oci_runtime.wrapper import Wrapper
from tests.runtime_config.support import Launcher


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return Launcher(tmp_path_factory.mktemp("launcher")).build()


@pytest.fixture
def launcher(built: Launcher) -> Launcher:
    """Return the launcher with links to runc."""
    for path in built.bin.iterdir():
        if path.name != "python":
            path.unlink()
    built.lead_to(built.tool("runc"))
    return built


@pytest.fixture(scope="session")
def any_launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a launcher whose paths are in its current folder."""
    return build_launcher(tmp_path_factory.mktemp("any"))


@pytest.fixture(scope="session")
def bare_launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a launcher without a Python: a server has prepared each start."""
    return build_launcher(tmp_path_factory.mktemp("bare"), "/nowhere/python3")


@pytest.fixture
def bare(bare_launcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: bool) -> Served:
    """Return such a launcher, and no server yet."""
    # The launcher ends where it would become Python, with what it has prepared for that.
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    return Served(tmp_path / "node", module=module, program=bare_launcher).build()


@pytest.fixture
def module() -> bool:
    """Return whether the node's engine is the module; tests say it otherwise."""
    return False


@pytest.fixture
def alone(tmp_path: Path, module: bool) -> Wrapper:
    """Return a wrapper without a launcher and a server, which both stand for."""
    return Wrapper(tmp_path / "node", module=module).build()


@pytest.fixture
def served(any_launcher: Path, tmp_path: Path, module: bool) -> Iterator[Served]:
    """Return a launcher with a server beside it."""
    made = Served(tmp_path / "node", module=module, program=any_launcher).build()
    with made.server():
        yield made


@pytest.fixture(params=["alone", "served"])
def wrapper(request: pytest.FixtureRequest, module: bool) -> Wrapper:
    """Return both in turn, with the engine that `module` says."""
    found: Wrapper = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "root").mkdir()
    return Machine(tmp_path)
