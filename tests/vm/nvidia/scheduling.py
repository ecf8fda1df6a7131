# SPDX-License-Identifier: Apache-2.0
"""Controls of channels and channel groups among what the driver has handed to its GSP."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.sim.abi import facts, layout
from tests.vm.harness.node import real_driver
from tests.vm.harness.process import Process
from tests.vm.nvidia.driver import Order

GROUP = re.compile(r"group client=0x(\w+) handle=0x(\w+) channels=(\S+) status=0x0")


def control(name: str) -> int:
    number: int = facts()["controls"][name]["cmd"]
    return number


SET_TIMESLICE = control("NVA06C_CTRL_CMD_SET_TIMESLICE")
DISABLE_CHANNELS = control("NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS")
SCHEDULE = control("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE")

Channel = tuple[int, int]  # its client and its handle


@dataclass(frozen=True)
class Group:
    """A channel group that a probe has made."""

    client: int
    handle: int
    channels: frozenset[Channel]


@dataclass(frozen=True)
class ChannelOrder:
    """One order that stops channels, or lets them run."""

    time: int
    disable: bool
    channels: frozenset[Channel]
    scheduling_only: bool
    rewind: bool


def groups_of(process: Process) -> list[Group]:
    found = []
    for client, handle, channels in GROUP.findall(process.finished().stdout):
        owner = int(client, 16)
        own = frozenset((owner, int(channel, 16)) for channel in channels.split(","))
        found.append(Group(owner, int(handle, 16), own))
    return found


def time_slices(orders: Iterable[Order], group: Group) -> list[int]:
    """Return the time slices that a group was given, one after the other."""
    at, size = _layout("NVA06C_CTRL_TIMESLICE_PARAMS")["timesliceUs"]
    return [
        order.number(at, size)
        for order in orders
        if (order.command, order.client, order.object) == (SET_TIMESLICE, group.client, group.handle)
    ]


def channel_orders(orders: Iterable[Order]) -> list[ChannelOrder]:
    """Return the orders that stop channels or let them run."""
    return [_channel_order(order) for order in orders if order.command == DISABLE_CHANNELS]


def _layout(name: str) -> dict[str, tuple[int, int]]:
    version = real_driver()
    assert version is not None
    return layout(name, version).fields


def _channel_order(order: Order) -> ChannelOrder:
    at = _layout("NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS")
    count = order.number(*at["numChannels"])
    clients = order.numbers(at["hClientList"][0], count)
    channels = order.numbers(at["hChannelList"][0], count)
    return ChannelOrder(
        order.time,
        bool(order.number(*at["bDisable"])),
        frozenset(zip(clients, channels, strict=True)),
        bool(order.number(*at["bOnlyDisableScheduling"])),
        bool(order.number(*at["bRewindGpPut"])),
    )


def stopped(found: Iterable[ChannelOrder]) -> frozenset[Channel]:
    now: frozenset[Channel] = frozenset()
    for one in found:
        now = now | one.channels if one.disable else now - one.channels
    return now


@dataclass(frozen=True)
class Running:
    """Which of several groups could run, as parts of the time, and the most that could at one moment."""

    parts: tuple[float, ...]
    at_once: int


def running(found: Sequence[ChannelOrder], groups: Sequence[Group]) -> Running:
    """Say which of these groups could run between the first order that stops one and the last."""
    free = [True] * len(groups)
    ran = [0] * len(groups)
    first = next(i for i, one in enumerate(found) if one.disable)
    at_once, before = 0, found[first].time
    for one in found[first:]:
        ran = [had + (one.time - before) * can for had, can in zip(ran, free, strict=True)]
        at_once = max(at_once, sum(free) if one.time > before else 0)
        before = one.time
        free = [
            not one.disable if group.channels & one.channels else can
            for group, can in zip(groups, free, strict=True)
        ]
    span = found[-1].time - found[first].time
    return Running(tuple(had / span for had in ran), at_once)
