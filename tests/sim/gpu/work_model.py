# SPDX-License-Identifier: Apache-2.0
"""A reference for one engine of the simulated card, tick by tick, made from the hardware's documents.

A tick is one unit of a time slice (1024 ns); all lengths are whole ticks. Levers act at the begin of a tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

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
    """Channels under one time slice. The first channel is the one whose turn is next."""

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

    # --- levers ---

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
