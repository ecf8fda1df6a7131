# SPDX-License-Identifier: Apache-2.0
"""The simulated card's engines agree, tick by tick, with a reference made from the hardware's documents."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim import work_model as model
from tests.sim.work_card import NONE, UNIT, Card, library

__all__ = ["library"]


TICKS = 160


@dataclass(frozen=True)
class Launch:
    """A kernel that comes at a tick."""

    at: int
    channel: int
    length: int
    grain: int


@dataclass(frozen=True)
class Lever:
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
    levers: list[Lever]


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
LEVER = st.builds(
    Lever, st.integers(1, TICKS - 1), st.sampled_from(KINDS), st.integers(0, 11), st.integers(0, 5)
)
HISTORY = st.builds(
    History,
    switch=st.integers(0, 3),
    save=st.integers(0, 2),
    slices=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    channels=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    launches=st.lists(LAUNCH, max_size=40),
    levers=st.lists(LEVER, max_size=12),
)


class Pair:
    """A card and its model, which hear the same."""

    def __init__(self, library: ctypes.CDLL, history: History) -> None:
        """Make the groups and channels of a history."""
        self.card = Card(library, switch=history.switch * UNIT, save=history.save * UNIT, command=UNIT)
        self.card_groups: list[int] = []
        self.card_channels: list[int] = []
        groups: list[model.Group] = []
        self.channels: list[model.Channel] = []
        for count, slice_ in zip(history.channels, history.slices, strict=False):
            self.card_groups.append(self.card.group(us=slice_))
            names = [self.card.channel(self.card_groups[-1]) for _ in range(count)]
            self.card_channels += names
            mine = [model.Channel(name) for name in names]
            self.channels += mine
            groups.append(model.Group(list(mine), slice_))
        # The slices act a tick later: that tick is before the history begins.
        self.card.advance(UNIT)
        self.model = model.Model(groups, history.switch, history.save)
        self.groups = list(groups)

    def call(self, lever: Lever) -> None:
        """Pull a lever of the card; it acts at the next tick."""
        channel = self.card_channels[lever.target % len(self.card_channels)]
        group = self.card_groups[lever.target % len(self.card_groups)]
        calls: dict[str, Callable[[], int]] = {
            "disable": lambda: self.card.disable(channel),
            "only": lambda: self.card.disable(channel, only_scheduling=True),
            "enable": lambda: self.card.enable(channel),
            "schedule": lambda: self.card.schedule(group, bool(lever.value % 2)),
            "preempt": lambda: self.card.preempt(group),
            "timeslice": lambda: self.card.timeslice(group, lever.value + 1),
            "level": lambda: self.card.level(group, lever.value % 3),
            "realtime": lambda: self.card.realtime(group, bool(lever.value % 2)),
            "interleave": lambda: self.card.interleave(bool(lever.value % 2)),
            "restart": self.card.restart,
        }
        assert calls[lever.kind]() == 0

    def act(self, lever: Lever) -> None:
        """The same in the model, now."""
        channel = self.channels[lever.target % len(self.channels)]
        group = self.groups[lever.target % len(self.groups)]
        on = bool(lever.value % 2)
        match lever.kind:
            case "disable" | "only":
                self.model.disable(channel, only_scheduling=lever.kind == "only")
            case "enable":
                self.model.enable(channel)
            case "schedule":
                self.model.schedule(group, enable=on)
            case "preempt":
                self.model.preempt(group)
            case "timeslice":
                group.slice = lever.value + 1
                self.model.restart()
            case "restart":
                self.model.restart()
            case _:
                if lever.kind == "level":
                    group.level = lever.value % 3
                elif lever.kind == "realtime":
                    group.realtime = on
                else:
                    self.model.interleaved = on
                self.model.submit_list()

    def launch(self, launch: Launch, tag: int) -> None:
        index = launch.channel % len(self.channels)
        self.channels[index].queue.append(model.Item(launch.length, launch.grain, tag))
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
        return model.SWITCH if self.card.engine().switching > before else model.IDLE

    def check(self, history: History, tick: int) -> None:
        """Go through one tick."""
        self.card.advance((tick + 1) * UNIT)
        for lever in history.levers:
            if lever.at == tick:
                self.act(lever)
        expected = next(self.model.ticks)
        for tag, launch in enumerate(history.launches):
            if launch.at == tick:
                self.launch(launch, tag)
                if expected == model.IDLE:
                    expected = next(self.model.ticks)
        for lever in history.levers:
            if lever.at == tick + 1:
                self.call(lever)
        assert self.card_does() == expected, f"tick {tick}"


@given(history=HISTORY)
@settings(max_examples=400)
def test_engine_agrees_with_the_reference(library: ctypes.CDLL, history: History) -> None:
    """Whatever is launched and called, each tick goes to whom the reference says; kernels end in order."""
    pair = Pair(library, history)
    for tick in range(TICKS):
        pair.check(history, tick)
    pair.card.advance((TICKS + 1) * UNIT)
    next(pair.model.ticks)
    assert [done.tag for done in pair.card.ended] == pair.model.ended
    pair.card.close()


@given(
    counts=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)).filter(any),
    slices=st.integers(1, 4),
)
@settings(max_examples=60)
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
    card.interleave(True)
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
    card.close()
