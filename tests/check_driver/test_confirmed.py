# SPDX-License-Identifier: Apache-2.0
"""Facts that a real driver has confirmed: the page is that of the evidence, and that speaks of the table."""

from __future__ import annotations

import pytest

from cgpu.kmod.abi.confirmed import PAGE, Confirmed, fields_at, page, read, uvm_commands
from tests.check_driver.tables import TABLE

DRIVERS = read()


def test_page_is_up_to_date() -> None:
    """docs/driver-facts.md is what the table and the evidence give."""
    help_text = "run: .venv/bin/python -m cgpu.kmod.abi.confirmed"
    assert PAGE.read_text() == page(TABLE, DRIVERS), help_text


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.driver)
def test_evidence_is_of_the_table(driver: Confirmed) -> None:
    """Each confirmed fact is in the table, at that version."""
    assert driver.driver in TABLE["tags"]
    for name, fields in driver.fields.items():
        assert set(fields) <= set(fields_at(TABLE, name, driver.driver)), name
    assert set(driver.structures) <= set(TABLE["structs"])
    assert set(driver.forwarded) <= set(driver.controls)
    assert set(driver.controls) <= set(TABLE["controls"])
    assert set(driver.classes) <= set(TABLE["classes"])
    assert set(driver.calls) <= {*TABLE["escapes"], *uvm_commands(TABLE)}
