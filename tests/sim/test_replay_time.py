# SPDX-License-Identifier: Apache-2.0
"""The library for replays has cards whose time its user sets, and their doorbells (kmod/replay/replay.h)."""

from __future__ import annotations

import ctypes
import errno
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

import pytest

from cgpu.trace.library import CARD, CONTROL, ERROR_BYTES, SIGNATURES, CCall
from tests.sim.abi import address
from tests.sim.conftest import make
from tests.sim.virtual import Cards
from tests.sim.worker import MS, SECOND

MORE = {
    "cgpu_replay_set_time": (None, [c_void_p, c_uint64]),
    "cgpu_replay_write": (c_int, [c_void_p, c_uint64, c_char_p, c_size_t]),
    "cgpu_replay_read": (c_int, [c_void_p, c_uint64, c_char_p, c_size_t]),
}


class Replay(Cards):
    """Cards behind the engine's core, as the library for replays has them."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.version = library, "580.142"
        error = ctypes.create_string_buffer(ERROR_BYTES)
        self.sim = c_void_p(library.cgpu_replay_new(self.version.encode(), b"T4", 0, error))
        assert self.sim.value, error.value

    def at(self, now: int) -> None:
        self.library.cgpu_replay_set_time(self.sim, now)

    def open(self, card: int = -1) -> int:
        number = int(self.library.cgpu_replay_open(self.sim, CONTROL if card < 0 else CARD, max(card, 0)))
        assert number
        return number

    def shut(self, number: int) -> None:
        self.library.cgpu_replay_close(self.sim, number)

    def call(self, number: int, process: int, nr: int, data: bytearray) -> int:
        call = CCall(number, process, nr, len(data), 0, address(data), 1, 1 << 62, 0, 0)
        assert self.library.cgpu_replay_call(self.sim, byref(call)) == 0
        return int(call.result)

    def write(self, number: int, data: bytes) -> int:
        return int(self.library.cgpu_replay_write(self.sim, number, data, len(data)))

    def read(self, number: int, out: ctypes.Array[ctypes.c_char]) -> int:
        return int(self.library.cgpu_replay_read(self.sim, number, out, len(out)))

    def end(self) -> None:
        self.library.cgpu_replay_free(self.sim)


@pytest.fixture
def replay() -> Replay:
    """Return a slice over a T4."""
    library = ctypes.CDLL(str(make("libcgpu-replay.so") / "libcgpu-replay.so"))
    for name, (result, arguments) in {**SIGNATURES, **MORE}.items():
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
    return Replay(library)


def test_time_is_set(replay: Replay) -> None:
    """It stands still in between, and work runs as far as it goes."""
    worker = replay.worker()
    group = worker.group()
    worker.ring(group.channel, 100, MS)
    assert (worker.figures(group.channel).now, worker.figures(group.channel).queued) == (0, 100)
    replay.at(SECOND)
    figures = worker.figures(group.channel)
    assert (figures.now, figures.completed, figures.busy) == (SECOND, 100, 100 * MS)
    replay.end()


def test_only_nodes_of_cards_ring(replay: Replay) -> None:
    """Neither nvidiactl, nor what is not open; a slice that is given up takes its groups along."""
    worker = replay.worker()
    group = worker.group()
    worker.ring(group.channel, 100, MS)
    record = worker.record(group.channel, 1, MS)
    for number in (worker.client.ctl, 77):
        assert replay.write(number, record) == -errno.EBADF
        assert replay.read(number, ctypes.create_string_buffer(40)) == -errno.EBADF
    replay.end()
