# SPDX-License-Identifier: Apache-2.0
"""A slice on a simulated model of another generation."""

from __future__ import annotations

import pytest

from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB
from tests.integration.commands import Outcome
from tests.integration.probe import NO_MEMORY, step
from tests.sim.support import listed

LIMIT = 1024 * MIB


@pytest.mark.enforcement
@pytest.mark.parametrize("model", ["A100-80GB", "B200"])
def test_slice(make_daemon: MakeDaemon, model: str) -> None:
    """The daemon takes a model without capitals; a slice of its card has its size, a context, and an end."""
    daemon = make_daemon(model.lower())
    mib, name = listed()[model]
    assert daemon.status()["simulate"] == model
    assert daemon.read("0/name") == f"{name}\n"
    assert daemon.read("0/memtotal") == f"{mib * MIB}\n"
    sliced = daemon.slice(1, f"gpu=0:{LIMIT}", "info", "group", "expect=0x51", "alloc=1G", "alloc=512M")
    said = sliced.finish()
    assert sliced.process.returncode == 0, said
    outcome = Outcome(0, said, "")
    assert step(outcome, "info").number("total") == LIMIT
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert step(outcome, "alloc", 1).number("status") == 0
