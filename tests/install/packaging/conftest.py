# SPDX-License-Identifier: Apache-2.0
"""The packages, built once, and a machine that has Debian's installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.packaging.bare_node import make_root
from tests.install.packaging.machine import Machine
from tests.packages import Packages
from tests.packages import bundle as built_bundle
from tests.packages import packages as built_packages
from tests.packages import rpms as built_rpms


@pytest.fixture(scope="session")
def packages() -> Packages:
    return built_packages()


@pytest.fixture(scope="session")
def bundle() -> Path:
    return built_bundle()


@pytest.fixture(scope="session")
def rpms() -> Packages:
    if shutil.which("rpmbuild") is None:
        pytest.skip("rpmbuild is not installed; run: scripts/bootstrap rpm")
    return built_rpms()


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Make a machine without the packages."""
    made = Machine()
    yield made
    made.end()


@pytest.fixture(scope="module")
def node(packages: Packages) -> Iterator[Machine]:
    """Make a machine that has the package opencgpu."""
    made = Machine()
    made.install(packages.daemon)
    yield made
    made.end()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make the files of a bare node."""
    make_root(tmp_path / "root")
    return tmp_path / "root"
