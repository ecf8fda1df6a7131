# SPDX-License-Identifier: Apache-2.0
"""Channel groups of a client on a simulated card, and work in them (kmod/sim/gpu/doorbell.h)."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from dataclasses import dataclass
from typing import Final

from tests.sim.abi import CHANNEL, GRAPHICS, GROUP, REGISTER_FD, Status, command
from tests.sim.client import Client

RECORD: Final = struct.Struct("=IIQQII")
FIGURES: Final = struct.Struct("=5Q")
QUEUE: Final = 1024
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
SCHEDULE, SET_SLICE, LEVEL, REALTIME = 0xA06C0101, 0xA06C0103, 0xA06C0107, 0xA06C0110
CHANNEL_LEVEL, RESTART = 0xA06F0109, 0xA06F0111
DISABLE, RUNLIST_POLICY, SET_COMPUTE = 0x2080110B, 0x20801115, 0x20800194
INVALID_CHANNEL: Final = 0x21


@dataclass(frozen=True)
class Figures:
    """What a channel's doorbell tells."""

    submitted: int
    completed: int
    queued: int
    busy: int
    now: int


@dataclass(frozen=True)
class Group:
    """A channel group's handle, and those of its channels."""

    handle: int
    channels: tuple[int, ...]

    @property
    def channel(self) -> int:
        """Return its only channel, or the first one."""
        return self.channels[0]


class Worker:
    """A client whose card file is tied to it, so that it can ring doorbells."""

    def __init__(self, client: Client, card: int = 0) -> None:
        self.client = client
        self.node = self._open(card)

    def _open(self, card: int) -> int:
        node = self.client.sim.open(f"nvidia{card}")
        fcntl.ioctl(node, command(REGISTER_FD, 4), struct.pack("I", self.client.ctl))
        return node

    def write(self, data: bytes) -> int:
        """Write to the card's node: bytes that were taken. Raises OSError."""
        return os.pwrite(self.node, data, 0)

    def read(self) -> bytes:
        """Read from the card's node. Raises OSError."""
        return os.pread(self.node, FIGURES.size, 0)

    def close(self) -> None:
        os.close(self.node)

    def record(self, channel: int, count: int, length: int, grain: int = 1) -> bytes:
        return RECORD.pack(self.client.handle, channel, length, grain, count, 0)

    def ring(self, channel: int, count: int = 1, length: int = MS, grain: int = 1) -> None:
        """Launch kernels. Raises OSError."""
        assert self.write(self.record(channel, count, length, grain)) == RECORD.size

    def figures(self, channel: int) -> Figures:
        """Return a channel's figures. Raises OSError."""
        self.ring(channel, 0, 0)
        return Figures(*FIGURES.unpack(self.read()))

    def channel(self, parent: int, entries: int = 0) -> int:
        """Make a channel in a group, or below the device."""
        form = "NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS"
        params = self.client.params(form, engineType=GRAPHICS, gpFifoEntries=entries)
        status, handle = self.client.alloc(parent, CHANNEL, params)
        assert status == Status.OK
        return handle

    def group(self, channels: int = 1, *, scheduled: bool = True) -> Group:
        params = self.client.params("NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS", engineType=GRAPHICS)
        status, handle = self.client.alloc(self.client.device, GROUP, params)
        assert status == Status.OK
        made = Group(handle, tuple(self.channel(handle) for _ in range(channels)))
        if scheduled:
            assert self.schedule(handle) == Status.OK
        return made

    def control(self, handle: int, number: int, form: str, **values: int) -> int:
        """Make a control call with one structure."""
        return self.client.control(handle, number, self.client.params(form, **values))

    def schedule(self, group: int, on: int = 1, **values: int) -> int:
        """Put a group on its runlist, or take it off."""
        return self.control(group, SCHEDULE, "NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS", bEnable=on, **values)

    def timeslice(self, group: int, us: int) -> int:
        return self.control(group, SET_SLICE, "NVA06C_CTRL_TIMESLICE_PARAMS", timesliceUs=us)

    def disable(self, *channels: int, on: int = 1, owner: int = 0, **values: int) -> int:
        """Disable channels, of another client if one is named; on=0: enable them."""
        form = self.client.sim.layout("NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS")
        params = form.pack(bDisable=on, **{"numChannels": len(channels), **values})
        for index, channel in enumerate(channels):
            for name, value in (("hClientList", owner or self.client.handle), ("hChannelList", channel)):
                struct.pack_into("=I", params, form.fields[name][0] + 4 * index, value)
        return self.client.control(self.client.subdevice, DISABLE, params)

    def wait(self, channel: int, completed: int, seconds: float = 10) -> Figures:
        """Wait until so many kernels have ended, by the clock."""
        end = time.monotonic() + seconds
        while (figures := self.figures(channel)).completed < completed:
            assert time.monotonic() < end, figures
            time.sleep(0.001)
        return figures
