# SPDX-License-Identifier: Apache-2.0
"""The driver's samples of how busy a card was with which process; in virtual time."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from tests.sim.abi import COPY, Status
from tests.sim.virtual import Cards
from tests.sim.worker import MS, NOBODY, SECOND, Sample

PERIOD = 166_666_667
WHOLE = 10_000


def test_shares_of_processes(cards: Cards) -> None:
    """Each sample is of a sixth of a second; all of a time together are how busy the card was."""
    first, second = cards.worker(11), cards.worker(22)
    one, two = first.group(), second.group()
    for worker, group in ((first, one), (second, two)):
        worker.ring(group.channel, 1024, 5 * MS)
    assert first.timeslice(one.handle, 3072) == Status.OK
    cards.at(2 * SECOND)
    found = first.samples()[2:]
    assert {sample.process for sample in found} == {11, 22}
    for sample in found:
        assert sample.busy == pytest.approx(7400 if sample.process == 11 else 2450, abs=150)
    ends = sorted({sample.ended for sample in found})
    assert [later - earlier for earlier, later in itertools.pairwise(ends)] == [PERIOD] * (len(ends) - 1)
    assert len(found) == 2 * len(ends)
    assert second.samples() == first.samples()


def test_channels_of_a_process_count_together(cards: Cards) -> None:
    """Whatever groups and clients it has; copies are not compute."""
    first, again = cards.worker(11), cards.worker(11)
    for worker in (first, again):
        worker.ring(worker.group().channel, 100, 2 * MS)
    copies = cards.worker(33)
    copies.ring(copies.group(engine=COPY).channel, 1000, 2 * MS)
    cards.at(4 * PERIOD)
    found = first.samples()
    assert {sample.process for sample in found} == {11, NOBODY}
    assert sum(sample.busy for sample in found) * PERIOD / WHOLE == pytest.approx(400 * MS, rel=0.01)


def test_what_has_gone_still_counts(cards: Cards) -> None:
    """A group that ends within the time of a sample is in it."""
    worker, other = cards.worker(11), cards.worker(22)
    group = worker.group()
    worker.ring(group.channel, 100, MS)
    cards.at(PERIOD // 2)
    spent = worker.figures(group.channel).busy
    assert worker.client.free(group.handle) == Status.OK
    cards.at(PERIOD)
    assert other.samples() == [Sample(PERIOD, 11, spent * WHOLE // PERIOD)]


def test_the_ring(cards: Cards) -> None:
    """An idle card has samples of nobody; the ring keeps the last ones, however long nobody asked."""
    worker = cards.worker(11)
    assert worker.samples() == []
    group = worker.group()
    worker.ring(group.channel, 1, MS)
    cards.at(PERIOD - 1)
    assert worker.samples() == []
    cards.at(2 * PERIOD)
    assert [(sample.process, sample.busy > 0) for sample in worker.samples()] == [(11, True), (NOBODY, False)]
    late = 1_000_000 * PERIOD
    cards.at(late)
    found = worker.samples()
    assert [sample.ended for sample in found] == [late - index * PERIOD for index in reversed(range(72))]
    assert {(sample.process, sample.busy) for sample in found} == {(NOBODY, 0)}


def test_more_processes_than_places(cards: Cards) -> None:
    """A sample's time has at most as many of them as the ring has places."""
    workers = [cards.worker(100 + index) for index in range(80)]
    for worker in workers:
        worker.ring(worker.group().channel, 1, MS)
    cards.at(PERIOD)
    found = workers[0].samples()
    assert len({sample.process for sample in found}) == len(found) == 72


def test_wrong_questions(cards: Cards) -> None:
    """The buffer has one size; nothing was sampled where nothing ever ran."""
    worker, idle = cards.worker(), cards.worker(2, card=1)
    assert worker.try_samples(more=1)[0] == Status.INVALID_ARGUMENT
    cards.at(SECOND)
    assert idle.samples() == []


@pytest.mark.parametrize(
    ("version", "there"),
    [
        ("515.43.04", False),
        ("520.56.06", False),
        ("525.47.04", True),
        ("550.40.07", True),
        ("570.86.15", True),
    ],
)
def test_versions(library: ctypes.CDLL, version: str, there: bool) -> None:
    """The call is known from 525 on; its layout is each version's own."""
    cards = Cards(library, "T4", version)
    worker = cards.worker(11)
    worker.ring(worker.group().channel, 1000, MS)
    cards.at(2 * PERIOD)
    if there:
        assert [sample.process for sample in worker.samples()] == [11, 11]
    else:
        assert (
            worker.client.control(worker.client.subdevice, 0x20802096, bytearray(47216))
            == Status.NOT_SUPPORTED
        )
    cards.end()


def test_divided_cards_have_none(library: ctypes.CDLL) -> None:
    """As the driver says of a card in MIG mode."""
    cards = Cards(library, "H200/mig=0")
    assert cards.worker().try_samples()[0] == Status.NOT_SUPPORTED
    cards.end()
