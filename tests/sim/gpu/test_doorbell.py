# SPDX-License-Identifier: Apache-2.0
"""The doorbell of a simulated card's channels, and what becomes of what waits; in virtual time."""

from __future__ import annotations

import errno

import pytest

from tests.sim.abi import Status
from tests.sim.virtual import COMMAND, LOAD, Cards, filled
from tests.sim.worker import MS, QUEUE, SECOND, Worker


def test_doorbells_of_others(cards: Cards) -> None:
    """A file rings for its own client only, and for channels of its card."""
    worker, other, far = cards.worker(), cards.worker(2), cards.worker(3, card=1)
    group, elsewhere = worker.group(), far.group()
    for what, error in (
        (worker.record(0x77, 1, MS), errno.ENOENT),
        (worker.record(group.handle, 1, MS), errno.ENOENT),
        (other.record(group.channel, 1, MS), errno.EPERM),
        (far.record(elsewhere.channel, 1, MS), errno.EPERM),
        (worker.record(group.channel, 1, 0), errno.EINVAL),
        (worker.record(group.channel, 1, (1 << 60) + 1), errno.EINVAL),
        (worker.record(group.channel, QUEUE + 1, 1), errno.EINVAL),
        (worker.record(group.channel, 1, 1)[:-1], errno.EINVAL),
        (b"", errno.EINVAL),
    ):
        with pytest.raises(OSError, match=rf"Errno {error}\b"):
            worker.write(what)
    worker.write(worker.record(group.channel, 1, 1 << 60))
    assert worker.figures(group.channel).queued == 1


def test_a_full_queue(worker: Worker) -> None:
    """Takes whole records, as many as there is room for; a channel can have a shorter one."""
    group = worker.group(scheduled=False)
    half = worker.record(group.channel, QUEUE // 2, MS)
    assert worker.write(half * 3) == 2 * len(half)
    with pytest.raises(OSError, match=rf"Errno {errno.EAGAIN}\b"):
        worker.write(half)
    assert worker.figures(group.channel).queued == QUEUE
    one = worker.record(group.channel, 0, 0)
    assert worker.write(one * 100) == 64 * len(one)
    short = worker.channel(group.handle, entries=2)
    worker.ring(short, 2)
    with pytest.raises(OSError, match=rf"Errno {errno.EAGAIN}\b"):
        worker.ring(short, 1)
    with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\b"):
        worker.ring(short, 3)


def test_time_goes_on_only_forwards(cards: Cards, worker: Worker) -> None:
    """And stands still until it is set."""
    group = filled(worker, worker.group())
    assert worker.figures(group.channel).now == 0
    cards.at(SECOND)
    cards.at(MS)
    assert worker.figures(group.channel).now == SECOND


def test_rewound_channels(cards: Cards, worker: Worker) -> None:
    """What waits in the queue is thrown away; what has begun goes on when the channel is enabled."""
    group = filled(worker, worker.group(), 10 * MS, count=100)
    cards.at(COMMAND + LOAD + 25 * MS)
    assert worker.disable(group.channel, bRewindGpPut=1) == Status.OK
    figures = worker.figures(group.channel)
    assert (figures.submitted, figures.completed, figures.queued) == (100, 2, 1)
    cards.at(SECOND)
    assert worker.disable(group.channel, on=0) == Status.OK
    cards.at(2 * SECOND)
    assert worker.figures(group.channel).completed == 3


@pytest.mark.parametrize("after", [0, 20 * MS, 20 * MS + 1])
def test_rewound_at_a_boundary(cards: Cards, worker: Worker, after: int) -> None:
    """A kernel that has just come onto the engine has begun."""
    group = filled(worker, worker.group(), 10 * MS, count=100)
    cards.at(COMMAND + LOAD + after)
    assert worker.disable(group.channel, bRewindGpPut=1) == Status.OK
    assert worker.disable(group.channel, on=0) == Status.OK
    cards.at(SECOND)
    ended = after // (10 * MS) + 1
    figures = worker.figures(group.channel)
    assert (figures.completed, figures.queued, figures.busy) == (ended, 0, ended * 10 * MS)
