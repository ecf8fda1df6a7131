# SPDX-License-Identifier: Apache-2.0
"""The packages, built once, and a machine that has them installed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.machine import Machine


class Packages(NamedTuple):
    """The Debian packages."""

    daemon: Path
    module: Path


@pytest.fixture(scope="session")
def packages(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Build the Debian packages of the checkout."""
    target = tmp_path_factory.mktemp("deb")
    command = [repository / "scripts/build-deb", target]
    environment = os.environ | {"DEB_BUILD_OPTIONS": "noautodbgsym"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    (daemon,) = target.glob("opencgpu_*.deb")
    (module,) = target.glob("opencgpu-dkms_*.deb")
    return Packages(daemon, module)


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
