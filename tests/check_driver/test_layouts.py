# SPDX-License-Identifier: Apache-2.0
"""Drivers of every set of layouts: under their own version, under an unknown one, and under a wrong one."""

from __future__ import annotations

import itertools

import pytest

from cgpu.check_driver.run import run
from tests.check_driver.tables import DUPLICATES, TABLE, first_versions, version_above, version_below
from tests.sim.conftest import Start
from tests.sim.support import Sim

pytestmark = pytest.mark.root

FIRST = first_versions()
# Check that first catches a driver with other layouts than its neighbour's.
CAUGHT = {
    "525.47.04": "client, device and subdevice by NVOS64",
    "530.30.02": "identity of the card",
    "535.43.02": "client, device and subdevice by NVOS64",
    "535.43.08": "parameters of classes",
    "535.113.01": "GET_PIDS and GET_PID_INFO in another pid namespace",
    "545.23.06": "identity of the card",
    "550.40.07": "USE_EGM by VID_HEAP",
    "550.40.53": "calls of nvidia-uvm",
    "560.28.03": "FB_GET_INFO, FB_GET_INFO_V2 and VID_HEAP INFO",
    "565.57.01": "calls of nvidia-uvm",
    "570.86.15": "parameters of classes",
    "575.51.02": "identity of the card",
    "580.65.06": "identity of the card",
    "590.44.01": "calls of nvidia-uvm",
    "595.44.02": "client, device and subdevice by NVOS21",
    "615.71.09": "identity of the card",
}

# Versions that differ from the one before in nothing that a check asks for, and why that grants nothing.
UNASKED = {"515.86.01": "the size of processes' samples: the driver refuses a call of another size"}

PAIRS = [pair for pair in itertools.pairwise(FIRST) if pair[1] not in UNASKED]


def says(start: Start, plays: str, version: str) -> Sim:
    """Start a driver that has one version's layouts and tells another."""
    return start("T4", plays, "--says", version)


@pytest.mark.parametrize("version", FIRST)
def test_own_version(start: Start, version: str) -> None:
    """Every set of layouts passes all checks under its own version, and leaves the card empty."""
    sim = start("T4:2", version)
    outcome = run(str(sim.mount))
    verified = version not in TABLE["unverified"]
    assert (outcome.driver, outcome.known, outcome.table) == (version, verified, version)
    others = [check.name for check in outcome.checks if check.verdict != "passed"]
    assert others == ([] if verified else DUPLICATES * 2)
    assert {check.card for check in outcome.checks} == {f"{sim.mount}/nvidia0", f"{sim.mount}/nvidia1"}
    assert sim.settles(0, 0)
    assert sim.settles(1, 0)


@pytest.mark.parametrize(("older", "newer"), PAIRS)
def test_unknown_version_with_newer_layouts(start: Start, older: str, newer: str) -> None:
    """An unknown version that has the layouts of the next newer one is caught, and the card is left empty."""
    sim = says(start, newer, version_below(newer))
    outcome = run(str(sim.mount))
    assert not outcome.known
    assert outcome.with_verdict("failed")[0].name == CAUGHT[newer]
    assert sim.settles(0, 0)


@pytest.mark.parametrize(("older", "newer"), PAIRS[::4])
def test_unknown_version_with_older_layouts(start: Start, older: str, newer: str) -> None:
    """An unknown version that still has the layouts before is caught as well."""
    sim = says(start, older, version_above(newer))
    outcome = run(str(sim.mount))
    assert not outcome.known
    assert outcome.with_verdict("failed")
    assert sim.settles(0, 0)
