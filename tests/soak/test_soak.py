# SPDX-License-Identifier: Apache-2.0
"""The soak notices what it is for, which no run of it shows where all is well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.soak import cgpud
from tests.soak.flow import LOOKS, Counts, Result, soak

SHORT = Counts(registrations=20, lives=8, changes=1)


@pytest.mark.root
def test_a_container_that_stays() -> None:
    """One of 20 registrations is not taken back: the soak names it, and else finds nothing."""
    with cgpud.started(forgotten=(11,)) as engine:
        result = replace(soak(engine, "cgpud", SHORT, 1), allowed_kib=1 << 20)
    assert list(result.faults()) == ["left at the end: container soak11", "left at the end: containers=1"]
    assert (result.refused, result.upgrades, result.deaths) == (2, 1, 1)


def test_memory_that_grows() -> None:
    """A process that grows in any part of the soak is named."""
    flat = Result("cgpud", SHORT, 100, refused=2, memory={look: {"cgpud": 17200} for look in LOOKS})
    assert list(flat.faults()) == []
    for look in ("registrations", "lives 50 %", "end"):
        grown = {**flat.memory, look: {"cgpud": 17301}}
        (fault,) = replace(flat, memory=grown).faults()
        assert fault.startswith("memory of cgpud grew by 101 KiB")
        assert fault.endswith(f"to {look}")
