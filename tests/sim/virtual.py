# SPDX-License-Identifier: Apache-2.0
"""Simulated cards in this process, whose time is set by the test (tests/layouts/cards.c)."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tests.layouts import stage
from tests.layouts.stage import CCall
from tests.sim.abi import REGISTER_FD, Layout, address, layout
from tests.sim.client import Client
from tests.sim.worker import FIGURES, MS, QUEUE, US, Group, Worker

if TYPE_CHECKING:
    from tests.sim.support import Sim

# What the cards take to load a context, and until a call acts.
LOAD, COMMAND = 30 * US, 20 * US
SIGNATURES: stage.Signatures = {
    "cards_new": (c_void_p, [c_char_p, c_char_p, c_char_p]),
    "cards_free": (None, [c_void_p]),
    "cards_open": (c_void_p, [c_void_p, c_int, POINTER(c_uint64)]),
    "cards_close": (None, [c_void_p, c_void_p]),
    "cards_call": (c_int, [c_void_p, c_void_p, POINTER(CCall)]),
    "cards_set_time": (None, [c_void_p, c_uint64]),
    "cards_ring": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t]),
    "cards_figures": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t]),
}


def load(path: Path) -> ctypes.CDLL:
    """Load the library of tests/layouts and say how the cards' functions are called."""
    return stage.load(path, SIGNATURES)


class Cards:
    """Cards without a server."""

    def __init__(self, library: ctypes.CDLL, cards: str = "T4", version: str = "580.142") -> None:
        """Make them; their time is 0."""
        self.library, self.version = library, version
        error = ctypes.create_string_buffer(256)
        self.sim = c_void_p(library.cards_new(version.encode(), cards.encode(), error))
        assert self.sim.value, error.value
        self.files: dict[int, c_void_p] = {}

    def layout(self, name: str) -> Layout:
        return layout(name, self.version)

    def at(self, now: int) -> None:
        """Let it be so late, in nanoseconds."""
        self.library.cards_set_time(self.sim, now)

    def open(self, card: int = -1) -> int:
        """Open a card's node, or nvidiactl; return its number."""
        number = c_uint64()
        file = c_void_p(self.library.cards_open(self.sim, card, byref(number)))
        assert file.value
        self.files[number.value] = file
        return number.value

    def shut(self, number: int) -> None:
        """Close it for the last time."""
        self.library.cards_close(self.sim, self.files.pop(number))

    def call(self, number: int, process: int, nr: int, data: bytearray) -> int:
        """Make a call: 0 or -errno."""
        call = CCall(0, process, nr, len(data), address(data), 1, 1 << 62, 0, 0)
        return int(self.library.cards_call(self.sim, self.files[number], byref(call)))

    def write(self, number: int, data: bytes) -> int:
        """Write to a card's node: bytes or -errno."""
        return int(self.library.cards_ring(self.sim, self.files[number], data, len(data)))

    def read(self, number: int, out: ctypes.Array[ctypes.c_char]) -> int:
        """Read from a card's node: bytes or -errno."""
        return int(self.library.cards_figures(self.sim, self.files[number], out, len(out)))

    def end(self) -> None:
        """Close what is open and give everything up."""
        self.library.cards_free(self.sim)

    def worker(self, process: int = 1, card: int = 0) -> CardWorker:
        return CardWorker(CardClient(self, process, card), card)


class CardClient(Client):
    """A client of such cards."""

    def __init__(self, cards: Cards, process: int, card: int) -> None:
        self.cards, self.process = cards, process
        super().__init__(cast("Sim", cards), cards.open(), card)

    def attach(self, card: int) -> int:
        """Return the number of a card's device: these cards are always attached, in their order."""
        return card

    def call(self, nr: int, data: bytearray, *, magic: int = 0x46, direction: int = 3) -> None:
        """Make one call; raise OSError as the system call does."""
        assert (magic, direction) == (0x46, 3)
        result = self.cards.call(self.ctl, self.process, nr, data)
        if result:
            raise OSError(-result, os.strerror(-result))

    def close(self) -> None:
        self.cards.shut(self.ctl)
        self.ctl = -1


class CardWorker(Worker):
    """A process that uses a card."""

    def __init__(self, client: CardClient, card: int) -> None:
        self.cards = client.cards
        super().__init__(client, card)

    def _open(self, card: int) -> int:
        node = self.cards.open(card)
        data = bytearray(self.client.ctl.to_bytes(4, "little"))
        assert self.cards.call(node, 1, REGISTER_FD, data) == 0
        return node

    def _checked(self, result: int) -> int:
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def write(self, data: bytes) -> int:
        return self._checked(self.cards.write(self.node, data))

    def read(self) -> bytes:
        out = ctypes.create_string_buffer(FIGURES.size)
        size = self._checked(self.cards.read(self.node, out))
        return out.raw[:size]

    def close(self) -> None:
        self.cards.shut(self.node)


def filled(worker: Worker, group: Group, length: int = 10 * MS, grain: int = 1, count: int = QUEUE) -> Group:
    """Give all channels of a group work for long."""
    for channel in group.channels:
        worker.ring(channel, count, length, grain)
    return group


def share(cards: Cards, worker: Worker, channels: list[int], start: int, end: int) -> list[float]:
    """Return which parts of the busy time between two moments were of which channels."""
    cards.at(start)
    before = [worker.figures(channel).busy for channel in channels]
    cards.at(end)
    spent = [worker.figures(channel).busy - was for channel, was in zip(channels, before, strict=True)]
    return [one / sum(spent) for one in spent]
