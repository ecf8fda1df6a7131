# SPDX-License-Identifier: Apache-2.0
"""Doorbells and the driver's calls on channels and groups act on the card's engines; in virtual time."""

from __future__ import annotations

import errno

import pytest

from tests.sim.abi import Status
from tests.sim.virtual import Cards, filled, share
from tests.sim.worker import INVALID_CHANNEL, MS, QUEUE, SECOND, SET_SLICE, Worker

HALVES = pytest.approx([0.5, 0.5], abs=0.02)


def test_wrong_lists_of_channels(cards: Cards) -> None:
    """A list that is not right throughout changes nothing."""
    worker, far = cards.worker(), cards.worker(2, card=1)
    group = filled(worker, worker.group(2))
    elsewhere = far.group()
    good = group.channel
    assert worker.disable(good, 0x77) == INVALID_CHANNEL
    assert worker.disable(good, group.handle) == INVALID_CHANNEL
    assert worker.disable(good, worker.client.device) == INVALID_CHANNEL
    assert worker.disable(good, owner=0x77) == INVALID_CHANNEL
    assert worker.disable(elsewhere.channel, owner=far.client.handle) == INVALID_CHANNEL
    assert worker.disable(good, numChannels=65) == Status.INVALID_ARGUMENT
    assert worker.disable(good, pRunlistPreemptEvent=1) == Status.INSUFFICIENT_PERMISSIONS
    assert worker.disable() == Status.OK
    assert far.disable() == Status.OK
    assert share(cards, worker, list(group.channels), SECOND, 2 * SECOND) == HALVES
    many = [worker.channel(group.handle) for _ in range(62)]
    assert worker.disable(*group.channels, *many) == Status.OK
    cards.at(3 * SECOND)
    before = [worker.figures(channel).busy for channel in group.channels]
    cards.at(4 * SECOND)
    assert [worker.figures(channel).busy for channel in group.channels] == before


def test_freed_while_running(cards: Cards) -> None:
    """A channel, its group, the device, the client, or the file: the card goes on with the others."""
    stays = cards.worker()
    other = filled(stays, stays.group())
    now = 0
    for way in ("channel", "handle", "device", "client", "file"):
        worker = cards.worker(2)
        group = filled(worker, worker.group(2), grain=0)
        now += SECOND
        cards.at(now)
        assert worker.figures(group.channels[0]).busy > 0
        client = worker.client
        handles = {"device": client.device, "client": client.handle, "handle": group.handle}
        if way == "file":
            worker.close()
            client.close()
        else:
            assert client.free(handles.get(way, group.channel)) == Status.OK
        if way == "channel":
            with pytest.raises(OSError, match=r"Errno 2\b"):
                worker.figures(group.channel)
            assert share(cards, worker, [group.channels[1]], now, now + MS) == [1]
            assert client.free(group.handle) == Status.OK
        now += SECOND
        cards.at(now)
        before = stays.figures(other.channel).busy
        cards.at(now + 100 * MS)
        assert stays.figures(other.channel).busy - before == 100 * MS, way


def test_controls_ask_for_the_right_object(cards: Cards) -> None:
    """Of the caller's own client, of the right class, with the right size."""
    worker, other = cards.worker(), cards.worker(2)
    group = worker.group()
    form = "NVA06C_CTRL_TIMESLICE_PARAMS"
    assert other.control(group.handle, SET_SLICE, form) == Status.NOT_FOUND
    assert worker.control(group.channel, SET_SLICE, form) == Status.NOT_SUPPORTED
    assert worker.control(worker.client.device, SET_SLICE, form) == Status.NOT_SUPPORTED
    assert worker.control(0x77, SET_SLICE, form) == Status.NOT_FOUND
    assert worker.control(group.handle, SET_SLICE, "NVA06F_CTRL_BIND_PARAMS") == Status.INVALID_ARGUMENT


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
