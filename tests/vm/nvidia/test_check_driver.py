# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver has the interface that the project's table of it tells, by the project's own check."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm.machine import Machine
from tests.vm.node import load_driver, real_driver, unload_driver
from tests.vm.store import ROOT

pytestmark = pytest.mark.real_driver

CHECK = ROOT / "kmod" / "build" / "cgpu-check-driver"


@pytest.fixture
def driver(machine: Machine) -> Iterator[Machine]:
    """Return the machine with NVIDIA's driver, and no engine."""
    load_driver(machine)
    yield machine
    unload_driver(machine)


def test_every_check_passes(driver: Machine) -> None:
    """All that the engines believe of a driver holds, mappings of UVM too."""
    release = real_driver()
    done = driver.run([driver.seen(CHECK)], timeout=120)
    first, *checks = (line.split("\t") for line in done.stdout.splitlines())
    assert release is not None
    assert first == ["driver", release.version, "known", release.version]
    assert [check for check in checks if check[0] != "passed"] == []
    assert any(check[2] == "mappings of UVM" for check in checks)
