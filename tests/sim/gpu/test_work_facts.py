# SPDX-License-Identifier: Apache-2.0
"""The engines of the simulated card: single facts of slices, controls, programs and clocks."""

from __future__ import annotations

import ctypes
import errno
import time

import pytest

from benchmarks.shares.binding import MS, SECOND, US
from tests.sim.gpu.work_card import DEFAULT_SLICE, NEVER, NONE, UNIT, Card, library

__all__ = ["library"]


@pytest.fixture
def card(library: ctypes.CDLL) -> Card:
    """Return a card with one engine that does everything at once."""
    return Card(library)


def test_default_slice(card: Card) -> None:
    """A new group has 128 << 3 units."""
    assert card.of_group(card.group()).slice == DEFAULT_SLICE == (128 << 3) * UNIT


def test_a_kernel_that_cannot_be_cut_is_not(card: Card) -> None:
    """A kernel that cannot be preempted keeps the engine beyond its slice, at the others' cost."""
    long, short = (card.channel(card.group()) for _ in range(2))
    card.submit(long, 10 * MS)
    card.submit(short, MS, 1)
    card.advance(10 * MS)
    assert [(one.channel, one.ended) for one in card.ended] == [(long, 10 * MS)]
    card.advance(11 * MS)
    assert [(one.channel, one.started, one.ended) for one in card.ended[1:]] == [(short, 10 * MS, 11 * MS)]


def test_grain(card: Card) -> None:
    """With blocks of 300 us a kernel leaves at the first end of a block after its slice."""
    blocks, other = (card.channel(card.group()) for _ in range(2))
    card.submit(blocks, 10 * MS, 300 * US)
    card.submit(other, MS, 1)
    card.advance(1200 * US)
    assert (card.of_channel(blocks).busy, card.engine().channel) == (1200 * US, other)


def test_costs(library: ctypes.CDLL) -> None:
    """A switch costs what was set, a cut more, and a group that is alone pays neither."""
    card = Card(library, switch=40 * US, save=20 * US)
    first = card.channel(card.group())
    card.submit(first, 100 * MS, 1)
    card.advance(10 * MS)
    assert card.engine().switching == 40 * US
    card.submit(card.channel(card.group()), 100 * US, 1)
    card.advance(20 * MS)
    assert card.engine().switching == (40 + 20 + 40 + 40) * US


def test_controls_take_their_time(library: ctypes.CDLL) -> None:
    """A scheduling control acts after its latency; its caller can wait for the end of a channel."""
    card = Card(library, command=500 * US, save=100 * US)
    channel = card.channel(card.group())
    card.submit(channel, 100 * MS, 200 * US)
    card.advance(300 * US)
    assert card.disable(channel) == 0
    card.advance(799 * US)
    assert (card.pending, card.of_channel(channel).enabled) == (1, True)
    card.advance(899 * US)
    assert (card.pending, card.of_channel(channel).enabled, card.engine().channel) == (1, False, NONE)
    card.advance(900 * US)
    assert (card.pending, card.of_channel(channel).busy) == (0, 800 * US)


def test_preempt_between_kernels(library: ctypes.CDLL) -> None:
    """A group that is preempted while it is loaded, before a kernel of it runs, is loaded anew."""
    card = Card(library, switch=100 * US)
    group = card.group()
    card.submit(card.channel(group), MS, 1)
    card.advance(50 * US)
    card.preempt(group)
    card.advance(2 * MS)
    assert [(one.started, one.ended) for one in card.ended] == [(200 * US, 1200 * US)]


def test_an_end_of_a_slice_does_not_undo_a_preemption(card: Card) -> None:
    """What is to leave leaves, also when a new runlist ends its slice meanwhile."""
    group = card.group()
    channel = card.channel(group)
    card.submit(channel, 10 * MS, MS)
    card.advance(500 * US)
    card.disable(channel)
    card.timeslice(group, 4000)
    assert card.pending == 1
    card.advance(10 * MS)
    assert (card.pending, card.of_channel(channel).busy) == (0, MS)


def test_cancelled(card: Card) -> None:
    """Work of a channel that is removed is counted as cancelled, the kernel that ran too."""
    group = card.group()
    first, second = card.channel(group), card.channel(group)
    for channel in (first, first, second):
        card.submit(channel, MS)
    card.advance(500 * US)
    card.remove_channel(first)
    card.advance(10 * MS)
    figures = card.of_group(group)
    assert (figures.submitted, figures.completed, figures.cancelled, figures.queued) == (3, 1, 2, 0)
    assert [one.channel for one in card.ended] == [second]


def test_only_scheduling_lasts_no_longer_than_the_slice(card: Card) -> None:
    """A channel that stayed for the rest of a slice is not served when its group has its next one."""
    group = card.group()
    stays, other = card.channel(group), card.channel(group)
    card.submit(stays, 100 * MS, 1)
    card.submit(other, MS, 1)
    card.advance(100 * US)
    card.disable(stays, only_scheduling=True)
    card.advance(50 * MS)
    assert card.of_channel(stays).busy == DEFAULT_SLICE
    assert card.of_channel(other).busy == MS


def test_only_scheduling(card: Card) -> None:
    """Disabled for scheduling only, a channel stays until its group's slice is over."""
    channel = card.channel(card.group())
    card.submit(channel, 100 * MS, 1)
    card.advance(100 * US)
    card.disable(channel, only_scheduling=True)
    card.advance(50 * MS)
    assert card.of_channel(channel).busy == DEFAULT_SLICE


def test_a_lever_on_what_is_gone(library: ctypes.CDLL) -> None:
    """A scheduling control acts on nothing else that has got the identifier meanwhile."""
    card = Card(library, command=MS)
    group = card.group()
    channel = card.channel(group)
    card.schedule(group, False)
    card.disable(channel)
    card.remove_group(group)
    again = card.group()
    assert (again, card.channel(again)) == (group, channel)
    card.advance(2 * MS)
    card.submit(channel, US)
    card.advance(3 * MS)
    assert [one.channel for one in card.ended] == [channel]


def test_what_is_refused(card: Card) -> None:
    """What is not there, has no length or no room is refused, and changes nothing."""
    channel = card.channel(card.group(), 2)
    assert card.group(1) == card.channel(5) == card.channel(0, 0) == NONE
    assert card.submit(channel, 0) == -errno.EINVAL
    assert card.submit(channel, 2**63) == -errno.EINVAL
    assert [card.submit(channel, 5) for _ in range(3)] == [0, 0, -errno.EAGAIN]
    assert card.submit(9, 5) == card.disable(channel, 9) == card.preempt(9) == -errno.ENOENT
    assert card.level(0, 3) == -errno.EINVAL
    assert card.program(channel, [(0, 0, 0, 1)]) == card.program(9, [(5, 0, 0, 1)]) == NONE
    assert card.of_channel(channel).enabled
    assert card.of_channel(channel).queued == 2


def test_a_callback_may_submit_and_disable(library: ctypes.CDLL) -> None:
    """What a callback submits to any engine starts at that time; what it disables does not run on."""
    card = Card(library, engines=3)
    before, compute, copy = (card.channel(card.group(engine)) for engine in range(3))

    def then(done: object) -> None:
        if len(card.ended) == 1:
            assert card.submit(copy, 5 * US, 1, 2) == card.submit(before, 6 * US, 1, 4) == 0
        elif len(card.ended) == 2:
            assert card.submit(compute, 7 * US, 1, 3) == card.disable(compute) == 0

    card.on_done = then
    card.submit(compute, 10 * US, 1, 1)
    card.advance(MS)
    assert [(one.tag, one.started, one.ended) for one in card.ended] == [
        (1, 0, 10 * US),
        (2, 10 * US, 15 * US),
        (4, 10 * US, 16 * US),
    ]


def test_programs(card: Card) -> None:
    """A program launches no more than its depth, waits where it pauses, and ends when it is told to."""
    channel = card.channel(card.group())
    steps = [(100 * US, 1, 0, 3), (50 * US, 1, 650 * US, 1)]
    program = card.program(channel, steps, depth=2, end=9500 * US)
    card.advance(200 * US)
    assert card.of_channel(channel).queued == 2
    card.advance(5 * MS)
    assert (card.rounds(program), card.engine().busy, card.engine().idle) == (5, 1750 * US, 3250 * US)
    card.advance(20 * MS)
    assert card.of_channel(channel).completed == 40
    assert card.next == NEVER


def test_a_minute_of_25_containers_takes_less_than_a_second(library: ctypes.CDLL) -> None:
    """Virtual time is cheap: 60 seconds with slices of 1 ms and kernels of 50 us."""
    card = Card(library, switch=50 * US, save=20 * US)
    library.work_play_on_done(card.play, None, None)
    groups = [card.group(us=1000) for _ in range(25)]
    for index, group in enumerate(groups):
        card.program(card.channel(group), [(50 * US + index, US, 0, 100)])
    start = time.process_time()
    card.advance(60 * SECOND)
    assert time.process_time() - start < 1
    assert sum(card.of_group(group).completed for group in groups) > 1_000_000
