# SPDX-License-Identifier: Apache-2.0
"""Doorbells and the driver's calls on channels and groups act on the card's engines; in virtual time."""

from __future__ import annotations

import errno

import pytest

from tests.sim.abi import COPY, GRAPHICS, Status
from tests.sim.virtual import COMMAND, CUT, LOAD, Cards, filled, share
from tests.sim.worker import (
    BIND,
    CHANNEL_BIND,
    INSUFFICIENT_RESOURCES,
    INVALID_CHANNEL,
    MS,
    NO_FREE_FIFOS,
    PREEMPT,
    PROPERTIES,
    QUEUE,
    SECOND,
    SET_SLICE,
    Group,
    Worker,
)

HALVES = pytest.approx([0.5, 0.5], abs=0.02)


def test_nothing_runs_before_it_is_scheduled(cards: Cards, worker: Worker) -> None:
    """A new group is off the runlist; scheduling acts a moment later, and its context is loaded first."""
    group = filled(worker, worker.group(scheduled=False))
    cards.at(SECOND)
    assert worker.figures(group.channel).busy == 0
    assert worker.schedule(group.handle) == Status.OK
    cards.at(SECOND + COMMAND + LOAD)
    assert worker.figures(group.channel).busy == 0
    cards.at(SECOND + COMMAND + LOAD + 25 * MS)
    figures = worker.figures(group.channel)
    assert (figures.busy, figures.completed, figures.queued) == (25 * MS, 2, QUEUE - 2)
    assert figures.now == SECOND + COMMAND + LOAD + 25 * MS
    assert worker.schedule(group.handle, 0) == Status.OK
    cards.at(2 * SECOND)
    assert worker.figures(group.channel).busy == 25 * MS + COMMAND


def test_a_later_channel_has_to_be_scheduled_too(cards: Cards, worker: Worker) -> None:
    """By a call on itself, or on its group again; what is taken off alone leaves the others running."""
    group = worker.group()
    later = worker.channel(group.handle)
    filled(worker, Group(group.handle, (group.channel, later)))
    cards.at(SECOND)
    assert worker.figures(later).busy == 0
    assert worker.schedule_channel(later) == Status.OK
    assert share(cards, worker, [group.channel, later], 2 * SECOND, 3 * SECOND) == HALVES
    assert worker.schedule_channel(group.channel, 0) == Status.OK
    assert share(cards, worker, [group.channel, later], 4 * SECOND, 5 * SECOND) == [0, 1]
    assert worker.schedule(group.handle) == Status.OK
    assert share(cards, worker, [group.channel, later], 6 * SECOND, 7 * SECOND) == HALVES


def test_a_channel_can_bring_its_group_onto_the_runlist(cards: Cards, worker: Worker) -> None:
    """Scheduled by itself, in a group of the client's or in one that the driver makes for it."""
    group = filled(worker, worker.group(2, scheduled=False))
    assert worker.schedule_channel(group.channels[1]) == Status.OK
    assert share(cards, worker, list(group.channels), SECOND, 2 * SECOND) == [0, 1]
    worker.client.free(group.handle)
    alone = worker.channel(worker.client.device)
    worker.ring(alone, 3)
    cards.at(3 * SECOND)
    assert worker.figures(alone).completed == 0
    assert worker.schedule_channel(alone) == Status.OK
    cards.at(4 * SECOND)
    assert worker.figures(alone).completed == 3


def test_parts_of_scheduling(cards: Cards, worker: Worker) -> None:
    """Enabled and not on the runlist, or on it and not enabled: neither runs."""
    group = filled(worker, worker.group(scheduled=False))
    assert worker.schedule(group.handle, bSkipSubmit=1) == Status.OK
    assert worker.schedule(group.handle, bSkipSubmit=1, bSkipEnable=1) == Status.INVALID_ARGUMENT
    cards.at(SECOND)
    assert worker.figures(group.channel).busy == 0
    assert worker.schedule(group.handle, bSkipEnable=1) == Status.OK
    cards.at(2 * SECOND)
    assert worker.figures(group.channel).busy > 0
    other = filled(worker, worker.group(scheduled=False))
    assert worker.schedule(other.handle, bSkipEnable=1) == Status.OK
    cards.at(3 * SECOND)
    assert worker.figures(other.channel).busy == 0


def test_disabled_channels_do_not_run(cards: Cards) -> None:
    """Whoever schedules them; those of another client too, as nobody asks whose they are."""
    worker, other = cards.worker(), cards.worker(2)
    group = filled(worker, worker.group(2))
    cards.at(SECOND)
    assert other.disable(*group.channels, owner=worker.client.handle) == Status.OK
    cards.at(2 * SECOND)
    before = [worker.figures(channel).busy for channel in group.channels]
    assert sum(before) == SECOND - COMMAND - LOAD + COMMAND
    assert worker.schedule(group.handle) == Status.OK
    assert worker.schedule(group.handle, 0) == Status.OK
    assert worker.schedule(group.handle) == Status.OK
    assert worker.schedule_channel(group.channel) == Status.OK
    cards.at(3 * SECOND)
    assert [worker.figures(channel).busy for channel in group.channels] == before
    assert other.disable(group.channel, on=0, owner=worker.client.handle) == Status.OK
    assert share(cards, worker, list(group.channels), 4 * SECOND, 5 * SECOND) == [1, 0]


def test_enabling_does_not_schedule(cards: Cards, worker: Worker) -> None:
    """A channel that was taken off stays off, and one that is disabled meanwhile stays disabled."""
    group = filled(worker, worker.group())
    assert worker.schedule_channel(group.channel, 0) == Status.OK
    assert worker.disable(group.channel) == Status.OK
    assert worker.disable(group.channel, on=0) == Status.OK
    never = worker.channel(group.handle)
    worker.ring(never)
    for on in (1, 0):
        assert worker.disable(never, on=on) == Status.OK
    cards.at(SECOND)
    assert worker.figures(group.channel).busy == 0
    assert worker.figures(never).busy == 0


@pytest.mark.parametrize("grain", [0, 1])
def test_whole_kernels_run_to_their_end(cards: Cards, worker: Worker, grain: int) -> None:
    """A disabled channel leaves at the next point where its kernel can be preempted."""
    group = filled(worker, worker.group(), 100 * MS, grain)
    cards.at(COMMAND + LOAD + 30 * MS)
    assert worker.disable(group.channel) == Status.OK
    cards.at(SECOND)
    assert worker.figures(group.channel).busy == (100 * MS if grain == 0 else 30 * MS + COMMAND)


def test_disabled_for_scheduling_only(cards: Cards, worker: Worker) -> None:
    """What runs stays until its timeslice is over."""
    one, two = (filled(worker, worker.group(), 100 * MS) for _ in range(2))
    assert worker.timeslice(one.handle, 50000) == Status.OK
    cards.at(10 * MS)
    assert worker.disable(one.channel, bOnlyDisableScheduling=1) == Status.OK
    cards.at(SECOND)
    assert worker.figures(one.channel).busy == (50000 >> 8 << 8) * 1024
    assert worker.figures(two.channel).busy > 900 * MS


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


def test_time_slices_divide_the_card(cards: Cards, worker: Worker) -> None:
    """As the card rounds them, and the driver remembers what was asked for."""
    one, two = (filled(worker, worker.group(), 100 * MS) for _ in range(2))
    assert worker.timeslice_of(one.handle) == 1024
    assert worker.timeslice(one.handle, 3001) == Status.OK
    assert worker.timeslice_of(one.handle) == 3001
    real = 3001 >> 4 << 4  # eight bits, and a power of two
    assert share(cards, worker, [one.channel, two.channel], SECOND, 9 * SECOND) == pytest.approx(
        [real / (real + 1024), 1024 / (real + 1024)], abs=0.001
    )
    for us in (0, 1, (1 << 64) - 1):
        assert worker.timeslice(one.handle, us) == Status.OK
        assert worker.timeslice_of(one.handle) == us


def test_properties_of_a_channel(cards: Cards, worker: Worker) -> None:
    """Its engine's timeslice is that of its group; the driver's memory of it stays as it was."""
    one, two = (filled(worker, worker.group(), 100 * MS) for _ in range(2))
    form = "NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS"

    def properties(channel: int, kind: int, value: int = 3072) -> int:
        return worker.control(
            worker.client.device, PROPERTIES, form, hChannel=channel, property=kind, value=value
        )

    assert properties(one.channel, 0) == Status.OK
    assert worker.timeslice_of(one.handle) == 1024
    assert share(cards, worker, [one.channel, two.channel], SECOND, 9 * SECOND) == pytest.approx(
        [0.75, 0.25], abs=0.001
    )
    assert properties(one.channel, 2) == Status.NOT_SUPPORTED
    assert properties(one.channel, 9) == Status.INVALID_ARGUMENT
    assert properties(one.handle, 0) == INVALID_CHANNEL


def test_preemption(cards: Cards, worker: Worker) -> None:
    """The group leaves, and has its next turn after the others."""
    one, two = (filled(worker, worker.group(), 100 * MS) for _ in range(2))
    for group in (one, two):
        assert worker.timeslice(group.handle, 100000) == Status.OK
    cards.at(10 * COMMAND + LOAD)
    assert worker.figures(two.channel).busy == 0
    form = "NVA06C_CTRL_PREEMPT_PARAMS"
    assert worker.control(one.handle, PREEMPT, form, bWait=1) == Status.OK
    cards.at(10 * COMMAND + LOAD + COMMAND + CUT + LOAD + MS)
    assert worker.figures(two.channel).busy == MS
    assert (
        worker.control(one.handle, PREEMPT, form, bManualTimeout=1, timeoutUs=1000001)
        == Status.INVALID_ARGUMENT
    )
    assert worker.control(one.handle, PREEMPT, form, bManualTimeout=1, timeoutUs=1000000) == Status.OK


def test_groups_that_are_not_scheduled_disturb_nobody(cards: Cards) -> None:
    """Only what is on a runlist makes it begin anew: who makes and frees others ends nobody's turn."""
    worker, other = cards.worker(), cards.worker(2)
    one, two = (filled(worker, worker.group(), SECOND) for _ in range(2))
    for group in (one, two):
        assert worker.timeslice(group.handle, 97280) == Status.OK
    cards.at(150 * MS)
    assert worker.figures(two.channel).busy > 0
    idle = other.group(3, scheduled=False)
    assert other.client.free(idle.channels[1]) == Status.OK
    assert other.client.free(idle.handle) == Status.OK
    cards.at(190 * MS)
    assert worker.figures(one.channel).busy == 95 * 1024 * 1024


def test_engines_are_apart(cards: Cards, worker: Worker) -> None:
    """A group runs on the engine that it was made for, beside those of others."""
    made = [
        filled(worker, worker.group(engine=engine)) for engine in (GRAPHICS, COPY, COPY + 1, COPY + 9, 0x13)
    ]
    cards.at(SECOND)
    busy = {worker.figures(group.channel).busy for group in made}
    assert busy == {SECOND - COMMAND - LOAD}


def test_binding(cards: Cards, worker: Worker) -> None:
    """A group without an engine gets the one it is bound to, once; what waits in it is lost."""
    form = "NVA06F_CTRL_BIND_PARAMS"
    graphics = filled(worker, worker.group())
    unbound = filled(worker, worker.group(2, scheduled=False, engine=0))
    assert worker.control(unbound.handle, BIND, form, engineType=0) == Status.INVALID_ARGUMENT
    assert worker.control(unbound.handle, BIND, form, engineType=GRAPHICS + 1) == Status.INVALID_ARGUMENT
    assert worker.control(unbound.channel, CHANNEL_BIND, form, engineType=COPY) == Status.OK
    assert worker.control(unbound.handle, BIND, form, engineType=GRAPHICS) == Status.INVALID_STATE
    assert worker.control(unbound.handle, BIND, form, engineType=COPY) == Status.OK
    assert worker.figures(unbound.channel).queued == 0
    assert worker.schedule(filled(worker, unbound).handle) == Status.OK
    cards.at(SECOND)
    assert worker.figures(graphics.channel).busy == SECOND - COMMAND - LOAD
    assert sum(worker.figures(channel).busy for channel in unbound.channels) == SECOND - COMMAND - LOAD
    default = worker.group(engine=0)
    assert worker.control(default.handle, BIND, form, engineType=COPY) == Status.INVALID_STATE
    assert worker.control(graphics.handle, BIND, form, engineType=COPY) == Status.INVALID_STATE


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


def test_a_duplicate_is_the_same_group(cards: Cards, worker: Worker) -> None:
    """It has the same slice, and the group lives as long as one of them."""
    group = filled(worker, worker.group())
    status, copy = worker.client.dup(worker.client, group.handle)
    assert status == Status.OK
    assert worker.timeslice(copy, 77) == Status.OK
    assert worker.timeslice_of(group.handle) == 77
    assert worker.schedule(copy, 0) == Status.OK
    cards.at(SECOND)
    assert worker.figures(group.channel).busy == 0
    assert worker.client.free(group.handle) == Status.OK
    assert worker.timeslice_of(copy) == 77


def test_a_duplicate_below_another_card(cards: Cards) -> None:
    """Its channels are on the group's card, wherever their objects lie."""
    worker, far = cards.worker(), cards.worker(1, card=1)
    status, copy = far.client.dup(worker.client, worker.group().handle)
    assert status == Status.OK
    channel = far.channel(copy)
    with pytest.raises(OSError, match=r"Errno 2\b"):
        far.ring(channel)
    assert far.disable(channel) == INVALID_CHANNEL
    assert far.schedule_channel(channel) == Status.OK
    assert far.timeslice(copy, 5) == Status.OK
    assert worker.disable(channel, owner=far.client.handle) == Status.OK
    assert far.client.free(copy) == Status.OK


def test_how_many_there_can_be(worker: Worker) -> None:
    """Groups and channels of a card, channels of a group; all are there again when they are freed."""
    for _ in range(2):
        groups = []
        while (made := worker.try_group(COPY))[0] == Status.OK:
            groups.append(made[1])
        assert (made[0], len(groups)) == (NO_FREE_FIFOS, 2048)
        assert worker.try_channel(worker.client.device)[0] == NO_FREE_FIFOS
        status, number = Status.OK, 0
        while status == Status.OK:
            status, _ = worker.try_channel(groups[number // 128])
            number += status == Status.OK
            if number == 128:
                assert worker.try_channel(groups[0])[0] == INSUFFICIENT_RESOURCES
        assert (status, number) == (NO_FREE_FIFOS, 2048)
        for group in groups:
            assert worker.client.free(group) == Status.OK


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
