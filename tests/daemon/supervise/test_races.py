# SPDX-License-Identifier: Apache-2.0
"""Threads of one program that race each other's supervised calls: driver and charges must agree."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.daemon.harness import MIB, Daemon, built

pytestmark = pytest.mark.root

LIMIT = 3000 * MIB
TICK_S = 1.3  # after this long the tree has the card's own figure


@pytest.fixture(scope="module")
def racing() -> Path:
    """Build the program."""
    return built("racing")


@pytest.mark.parametrize("how", ["dup", "free"])
def test_card_and_charges_agree(daemon: Daemon, racing: Path, how: str) -> None:
    """A handle duplicated while it is being made, or freed while it is given out again, hides nothing."""
    sliced = daemon.slice(1, f"gpu=0:{LIMIT}", how, program=racing)
    sliced.line("done")
    time.sleep(TICK_S)
    taken = int(daemon.read("0/memtotal")) - int(daemon.read("0/memfree"))
    assert taken <= LIMIT
    assert taken == daemon.used(sliced)
    sliced.finish()
    assert sliced.process.returncode == 0
