# SPDX-License-Identifier: Apache-2.0
"""cgpu check-driver on NVIDIA's own driver, with the right table and with wrong ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cgpu.kmod.abi.confirmed import Confirmed, read
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, real_driver, unload_driver
from tests.vm.nvidia.evidence import Field, answered, fields_of, proven, run_checks

pytestmark = [pytest.mark.real_driver, pytest.mark.timeout(count(300, 1200))]

# Checks that cannot pass here, each with what it would take. When one passes, run evidence.py again.
OUT_OF_REACH: dict[str, str] = {}
EACH = count(8, 1)  # one of so many fields


@pytest.fixture(scope="module")
def version() -> str:
    version = real_driver()
    assert version is not None
    return version


@pytest.fixture(scope="module")
def loaded(machine: Machine) -> Iterator[Machine]:
    load_driver(machine)
    yield machine
    unload_driver(machine)


@pytest.fixture(scope="module")
def committed(version: str) -> Confirmed:
    """Return what kmod/abi/confirmed.json says of this version."""
    found = [one for one in read() if one.driver == version]
    assert found, f"{version}: no evidence; run: CGPU_VM_DRIVER={version} python -m tests.vm.nvidia.evidence"
    return found[0]


def test_checks(loaded: Machine, committed: Confirmed) -> None:
    """Every check passes but those that are known to be out of reach of a card without a processor."""
    checked = run_checks(loaded)
    assert len(checked.checks) == 26
    assert checked.failed == set(OUT_OF_REACH) == set(committed.failed), checked.checks


def test_wrong_tables(loaded: Machine, version: str, committed: Confirmed) -> None:
    """A table with one number wrong is found, for each field that the evidence calls proven."""
    said: list[Field] = [(name, field) for name, fields in committed.fields.items() for field in fields]
    assert set(said) <= set(fields_of(version))
    some = said[::EACH]
    assert proven(loaded, some, version) == some


def test_answers(loaded: Machine, version: str, committed: Confirmed) -> None:
    """The driver answers all that the evidence says it has answered."""
    found = answered(loaded, version)
    for kind, names in found.items():
        assert set(getattr(committed, kind)) - names == set(), kind
