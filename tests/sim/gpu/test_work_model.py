# SPDX-License-Identifier: Apache-2.0
"""The simulated card's engines agree, tick by tick, with a reference made from the hardware's documents.

A tick is one unit of a timeslice (1024 ns); all lengths are whole ticks. Scheduling
controls act at the begin of a tick.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.gpu.work_card import NONE, UNIT, Card, build

SWITCH: Final = "switch"
IDLE: Final = "idle"
LOW, MEDIUM, HIGH = range(3)


@dataclass
class Item:
    """A kernel."""

    length: int
    grain: int
    tag: int
    progress: int = 0

    @property
    def may_be_cut(self) -> bool:
        """Whether it can be preempted where it is now."""
        return self.progress == 0 or (self.grain > 0 and self.progress % self.grain == 0)


@dataclass(eq=False)
class Channel:
    """A queue of kernels."""

    name: int
    queue: list[Item] = field(default_factory=list)
    enabled: bool = True
    lingers: bool = False


@dataclass(eq=False)
class Group:
    """Channels under one timeslice. The first channel is the one whose turn is next."""

    channels: list[Channel]
    slice: int
    scheduled: bool = True
    level: int = LOW
    realtime: bool = False

    @property
    def runnable(self) -> bool:
        return self.scheduled and any(one.enabled and one.queue for one in self.channels)

    def take_turn(self) -> Channel | None:
        """Bring the channel to the front that runs now, if the group is on the engine."""
        for index, one in enumerate(self.channels):
            if self.scheduled and (one.enabled or one.lingers) and one.queue:
                self.channels = self.channels[index:] + self.channels[:index]
                return one
        return None

    def next_turn(self) -> None:
        self.channels = self.channels[1:] + self.channels[:1]


def runlist(groups: list[Group], *, interleaved: bool) -> list[Group]:
    """The order of turns: interleaved, each level comes before every entry of a lower one."""
    first = [one for one in groups if one.realtime]
    rest = [one for one in groups if not one.realtime]
    if not interleaved:
        return [one for one in first + rest if one.scheduled]
    high, medium, low = (
        [one for one in rest if one.level == level and one.scheduled] for level in (HIGH, MEDIUM, LOW)
    )
    high = [one for one in first if one.scheduled] + high
    mediums = [entry for one in medium for entry in (*high, one)]
    return [entry for one in low for entry in (*mediums, *high, one)] or mediums or high


class Model:
    """One engine, its groups in the order in which they were made."""

    def __init__(self, groups: list[Group], switch: int, save: int) -> None:
        """Make an engine; costs in ticks."""
        self.groups = groups
        self.switch, self.save = switch, save
        self.interleaved = False
        self.list = runlist(groups, interleaved=False)
        self.last = -1
        self.loaded: Group | None = None
        self.on: Channel | None = None
        self.expired = self.forced = False
        self.at_work = False  # a context is loaded for work, or being loaded
        self.ended: list[int] = []
        self.ticks = self._ticks()

    # --- scheduling controls ---

    def submit_list(self) -> None:
        self.list = runlist(self.groups, interleaved=self.interleaved)
        self.restart()

    def restart(self) -> None:
        self.last = -1
        self.expired = self.expired or self.at_work

    def disable(self, channel: Channel, *, only_scheduling: bool) -> None:
        channel.enabled = False
        channel.lingers = only_scheduling and self.on is channel
        if not only_scheduling and self.on is channel:
            self.forced = True

    def enable(self, channel: Channel) -> None:
        channel.enabled, channel.lingers = True, False

    def schedule(self, group: Group, *, enable: bool) -> None:
        group.scheduled = enable
        self.submit_list()
        if not enable:
            self.preempt(group)

    def preempt(self, group: Group) -> None:
        if self.at_work and self.loaded is group:
            self.forced = True

    # --- time ---

    def after(self) -> int | None:
        """The place in the list whose turn is next."""
        for step in range(1, len(self.list) + 1):
            place = (self.last + step) % len(self.list)
            if self.list[place].runnable:
                return place
        return None

    def _ticks(self) -> Iterator[int | str]:
        while True:
            self.at_work = self.expired = self.forced = False
            place = self.after()
            if place is None:
                yield IDLE
                continue
            self.last, group = place, self.list[place]
            self.at_work = True
            if self.loaded is not group:
                self.loaded = group
                for _ in range(self.switch):
                    yield SWITCH
            yield from self._turn(group)
            for channel in group.channels:
                channel.lingers = False

    def _turn(self, group: Group) -> Iterator[int | str]:
        left = group.slice
        channel: Channel | None = None
        while True:
            # What has begun is on the engine until it ends or is cut, whatever was disabled meanwhile.
            channel = channel or group.take_turn()
            if channel is None:
                return
            item = channel.queue[0]
            over = self.forced or self.expired or left <= 0
            if over and item.may_be_cut:
                yield from self._go(group, item)
                return
            self.on = channel
            yield channel.name
            self.on = None
            item.progress += 1
            left -= 1
            if item.progress == item.length:
                self.ended.append(channel.queue.pop(0).tag)
                group.next_turn()
                channel = None

    def _go(self, group: Group, item: Item) -> Iterator[str]:
        place = self.after()
        if not self.forced and place is not None and self.list[place] is group:
            return
        if self.forced or item.progress:
            self.loaded = None
        self.at_work = False
        if item.progress:
            for _ in range(self.save):
                yield SWITCH


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("work"))


TICKS = 160


@dataclass(frozen=True)
class Launch:
    """A kernel that comes at a tick."""

    at: int
    channel: int
    length: int
    grain: int


@dataclass(frozen=True)
class Control:
    """A call of the driver that acts at a tick."""

    at: int
    kind: str
    target: int
    value: int


@dataclass(frozen=True)
class History:
    """What happens to one engine."""

    switch: int
    save: int
    slices: list[int]
    channels: list[int]
    launches: list[Launch]
    controls: list[Control]


KINDS = (
    "disable",
    "only",
    "enable",
    "schedule",
    "preempt",
    "timeslice",
    "level",
    "realtime",
    "interleave",
    "restart",
)
AT = st.integers(0, TICKS - 20)
LAUNCH = st.builds(
    Launch, AT, st.integers(0, 11), st.integers(1, 30), st.one_of(st.sampled_from([0, 1]), st.integers(2, 6))
)
CONTROL = st.builds(
    Control, st.integers(1, TICKS - 1), st.sampled_from(KINDS), st.integers(0, 11), st.integers(0, 5)
)
HISTORY = st.builds(
    History,
    switch=st.integers(0, 3),
    save=st.integers(0, 2),
    slices=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    channels=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    launches=st.lists(LAUNCH, max_size=40),
    controls=st.lists(CONTROL, max_size=12),
)


class Pair:
    """A card and its model, which hear the same."""

    def __init__(self, library: ctypes.CDLL, history: History) -> None:
        """Make the groups and channels of a history."""
        self.card = Card(library, switch=history.switch * UNIT, save=history.save * UNIT, command=UNIT)
        self.card_groups: list[int] = []
        self.card_channels: list[int] = []
        groups: list[Group] = []
        self.channels: list[Channel] = []
        for count, slice_ in zip(history.channels, history.slices, strict=False):
            self.card_groups.append(self.card.group(us=slice_))
            names = [self.card.channel(self.card_groups[-1]) for _ in range(count)]
            self.card_channels += names
            mine = [Channel(name) for name in names]
            self.channels += mine
            groups.append(Group(list(mine), slice_))
        # The slices act a tick later: that tick is before the history begins.
        self.card.advance(UNIT)
        self.model = Model(groups, history.switch, history.save)
        self.groups = list(groups)

    def call(self, control: Control) -> None:
        """Make a scheduling control of the card; it acts at the next tick."""
        channel = self.card_channels[control.target % len(self.card_channels)]
        group = self.card_groups[control.target % len(self.card_groups)]
        calls: dict[str, Callable[[], int]] = {
            "disable": lambda: self.card.disable(channel),
            "only": lambda: self.card.disable(channel, only_scheduling=True),
            "enable": lambda: self.card.enable(channel),
            "schedule": lambda: self.card.schedule(group, enable=bool(control.value % 2)),
            "preempt": lambda: self.card.preempt(group),
            "timeslice": lambda: self.card.timeslice(group, control.value + 1),
            "level": lambda: self.card.level(group, control.value % 3),
            "realtime": lambda: self.card.realtime(group, on=bool(control.value % 2)),
            "interleave": lambda: self.card.interleave(on=bool(control.value % 2)),
            "restart": self.card.restart,
        }
        assert calls[control.kind]() == 0

    def act(self, control: Control) -> None:
        """The same in the model, now."""
        channel = self.channels[control.target % len(self.channels)]
        group = self.groups[control.target % len(self.groups)]
        on = bool(control.value % 2)
        match control.kind:
            case "disable" | "only":
                self.model.disable(channel, only_scheduling=control.kind == "only")
            case "enable":
                self.model.enable(channel)
            case "schedule":
                self.model.schedule(group, enable=on)
            case "preempt":
                self.model.preempt(group)
            case "timeslice":
                group.slice = control.value + 1
                self.model.restart()
            case "restart":
                self.model.restart()
            case _:
                if control.kind == "level":
                    group.level = control.value % 3
                elif control.kind == "realtime":
                    group.realtime = on
                else:
                    self.model.interleaved = on
                self.model.submit_list()

    def launch(self, launch: Launch, tag: int) -> None:
        index = launch.channel % len(self.channels)
        self.channels[index].queue.append(Item(launch.length, launch.grain, tag))
        assert (
            self.card.submit(self.card_channels[index], launch.length * UNIT, launch.grain * UNIT, tag) == 0
        )

    def card_does(self) -> int | str:
        """What the card is doing now."""
        figures = self.card.engine()
        if figures.channel != NONE:
            return int(figures.channel)
        before = figures.switching
        self.card.advance(self.card.now + 1)
        return SWITCH if self.card.engine().switching > before else IDLE

    def check(self, history: History, tick: int) -> None:
        """Go through one tick."""
        self.card.advance((tick + 1) * UNIT)
        for control in history.controls:
            if control.at == tick:
                self.act(control)
        expected = next(self.model.ticks)
        for tag, launch in enumerate(history.launches):
            if launch.at == tick:
                self.launch(launch, tag)
                if expected == IDLE:
                    expected = next(self.model.ticks)
        for control in history.controls:
            if control.at == tick + 1:
                self.call(control)
        assert self.card_does() == expected, f"tick {tick}"


@given(history=HISTORY)
def test_engine_agrees_with_the_reference(library: ctypes.CDLL, history: History) -> None:
    """Whatever is launched and called, each tick goes to whom the reference says; kernels end in order."""
    pair = Pair(library, history)
    for tick in range(TICKS):
        pair.check(history, tick)
    pair.card.advance((TICKS + 1) * UNIT)
    next(pair.model.ticks)
    assert [done.tag for done in pair.card.ended] == pair.model.ended


@given(
    counts=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)).filter(any),
    slices=st.integers(1, 4),
)
def test_interleave_levels_give_the_published_numbers_of_turns(
    library: ctypes.CDLL, counts: tuple[int, int, int], slices: int
) -> None:
    """In a round of the runlist a LOW group has one turn, MEDIUM one per LOW, HIGH (MEDIUM + 1) per LOW."""
    high, medium, low = counts
    card = Card(library)
    levels = [level for level, count in ((2, high), (1, medium), (0, low)) for _ in range(count)]
    turns = {
        0: 1,
        1: low or 1,
        2: (medium + 1) * low or medium or 1,
    }
    card.interleave(on=True)
    groups = [card.group(us=slices) for _ in levels]
    for group, level in zip(groups, levels, strict=True):
        assert card.level(group, level) == 0
        card.submit(card.channel(group), 10**9, 1)
    card.restart()
    start = [card.of_group(group).busy for group in groups]
    rounds = 3
    card.advance(card.now + rounds * sum(turns[level] for level in levels) * slices * UNIT)
    got = [card.of_group(group).busy - before for group, before in zip(groups, start, strict=True)]
    assert got == [rounds * turns[level] * slices * UNIT for level in levels]


@given(us=st.one_of(st.integers(0, 600), st.integers(0, 2**24)))
def test_slices_are_what_the_hardware_has(library: ctypes.CDLL, us: int) -> None:
    """A slice becomes the longest the hardware has that is not above it; 0 becomes the shortest."""
    possible = {timeout << scale for timeout in range(1, 256) for scale in range(16)}
    best = max((one for one in possible if one <= us), default=1)
    assert library.work_slice(ctypes.c_uint64(us)) == best * UNIT
