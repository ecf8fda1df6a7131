# SPDX-License-Identifier: Apache-2.0
"""GPUs that stay whole beside slices, and cards in MIG mode, on cgpud."""

from __future__ import annotations

import errno

import pytest

from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, Daemon, Sliced
from tests.integration.commands import Outcome, eventually
from tests.integration.probe import step

NOT_PERMITTED = 0x1B
CARD = 4096 * MIB
LIMIT = 1024 * MIB


def said(sliced: Sliced, text: str = "") -> Outcome:
    """Wait for the end of a program in a slice, and return what it has printed."""
    out = sliced.finish(text)
    return Outcome(sliced.process.returncode, out, "")


@pytest.fixture
def cards(make_daemon: MakeDaemon) -> Daemon:
    """Start a daemon with three cards of 4 GiB, the second of which is in MIG mode."""
    return make_daemon("H200=4096:3/mig=1")


def switch_mig(daemon: Daemon, card: int, *, on: bool) -> None:
    (daemon.run / "sim" / "driver" / "gpus" / str(card) / "mig").write_text(f"{on:d}\n")


def test_cards_in_mig_mode(cards: Daemon) -> None:
    """Each registration asks the card whether MIG is on: such a card is refused, its neighbours are not."""
    assert [cards.read(f"{gpu}/mig") for gpu in range(3)] == ["0\n", "1\n", "0\n"]
    assert (cards.read("1/memtotal"), cards.read("1/memfree")) == (f"{CARD}\n", "0\n")
    assert cards.refusal(f"gpu=1:{MIB}") == errno.EOPNOTSUPP
    assert cards.refusal(f"gpu=0:{MIB} gpu=1:{MIB}") == errno.EOPNOTSUPP
    assert said(cards.slice(1, f"gpu=0:{MIB} gpu=2:{MIB}", "info")).returncode == 0
    switch_mig(cards, 2, on=True)
    assert cards.refusal(f"gpu=2:{MIB}") == errno.EOPNOTSUPP
    assert cards.read("2/mig") == "1\n"
    switch_mig(cards, 2, on=False)
    assert said(cards.slice(2, f"gpu=2:{MIB}", "gpu=2", "info")).returncode == 0
    switch_mig(cards, 1, on=False)
    eventually(lambda: cards.read("1/mig") == "0\n", "the tree follows")


def test_mig_under_a_slice_gives_nothing(cards: Daemon) -> None:
    """Where MIG comes under a slice that is there, its container gets no instance, and so no memory."""
    sliced = cards.slice(1, f"gpu=2:{LIMIT}", "gpu=2", "alloc=1M", "hold", "instance", "alloc=1M")
    sliced.line("hold")
    switch_mig(cards, 2, on=True)
    outcome = said(sliced, "\n")
    assert step(outcome, "instance").number("status") == NOT_PERMITTED
    assert step(outcome, "alloc").number("status") != 0
