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
MIXED = f"gpu=0:{LIMIT} native=1"


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


def test_it_outlives_the_daemon(make_daemon: MakeDaemon) -> None:
    """After a crash of the daemon the whole GPU is still whole, and the slice still a slice."""
    daemon = make_daemon("T4=4096:2", "enforce: true\n")
    words = ("gpu=1", "alloc=2G", "gpu=0", "alloc=512M", "hold")
    after = ("gpu=1", "alloc=1G", "info", "gpu=0", "expect=0x51", "alloc=1G", "info")
    sliced = daemon.slice(1, MIXED, *words, *after, until="hold")
    daemon.crash()
    assert daemon.used(sliced) == 512 * MIB
    assert daemon.read("1/natives") == "1\n"
    outcome = said(sliced, "\n")
    assert outcome.returncode == 0, outcome.text
    assert step(outcome, "info").number("total") == CARD
    assert step(outcome, "info").number("free") == 1024 * MIB
    assert step(outcome, "info", 1).number("total") == LIMIT


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


@pytest.mark.enforcement
def test_instances_of_a_whole_card_only(cards: Daemon) -> None:
    """A whole card in MIG mode is used through its instance; a sliced one has none for a container."""
    words = ("gpu=1", "expect=0x40", "alloc=1M", "instance", "alloc=2G", "info")
    outcome = said(cards.slice(1, MIXED, *words, "gpu=0", f"expect={NOT_PERMITTED:#x}", "instance"))
    assert outcome.returncode == 0, outcome.text
    assert step(outcome, "info").number("total") == CARD


def test_mig_under_a_slice_gives_nothing(cards: Daemon) -> None:
    """Where MIG comes under a slice that is there, its container gets no instance, and so no memory."""
    sliced = cards.slice(1, f"gpu=2:{LIMIT}", "gpu=2", "alloc=1M", "hold", "instance", "alloc=1M")
    sliced.line("hold")
    switch_mig(cards, 2, on=True)
    outcome = said(sliced, "\n")
    assert step(outcome, "instance").number("status") == NOT_PERMITTED
    assert step(outcome, "alloc").number("status") != 0
