# SPDX-License-Identifier: Apache-2.0
"""The engines of a simulated card through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from benchmarks.shares.binding import CKernel, CProgram, CSetup, CStep
from tests.structs import members

SIM: Final = Path(__file__).resolve().parents[3] / "kmod" / "sim" / "gpu"
SHARES: Final = Path(__file__).resolve().parents[3] / "benchmarks" / "shares"
NEVER: Final = 0xFFFFFFFFFFFFFFFF
NONE: Final = 0xFFFFFFFF
UNIT: Final = 1024  # nanoseconds in a unit of a timeslice
DEFAULT_SLICE: Final = 1024 * UNIT
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes")


class Done(ctypes.Structure):
    _fields_ = members("u32 channel group", "u64 tag submitted started ended")


class Engine(ctypes.Structure):
    _fields_ = members("u64 busy switching idle loads", "u32 group channel")


class Group(ctypes.Structure):
    _fields_ = members("u64 busy switching loads submitted completed cancelled queued slice")


class Channel(ctypes.Structure):
    _fields_ = members("u64 busy submitted completed queued", "bool enabled")


DONE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Done))
IDS = ("work_group_add", "work_channel_add", "work_play_add")
TIMES = ("work_now", "work_next", "work_slice", "work_play_next", "work_play_rounds")


def build(output: Path) -> ctypes.CDLL:
    """Compile the engines as a library; undefined behaviour ends the process."""
    library = output / "libwork.so"
    trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    sources = map(str, [*sorted(SIM.glob("work*.c")), SHARES / "work_play.c"])
    command = [
        "cc",
        "-std=gnu11",
        "-g",
        "-O2",
        *WARNINGS,
        *trap,
        f"-I{SIM}",
        "-fPIC",
        "-shared",
        *sources,
        "-o",
        str(library),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    out = ctypes.CDLL(str(library))
    for name in ("work_create", "work_play_create"):
        getattr(out, name).restype = ctypes.c_void_p
    for name in IDS:
        getattr(out, name).restype = ctypes.c_uint32
    for name in TIMES:
        getattr(out, name).restype = ctypes.c_uint64
    return out


@dataclass(frozen=True)
class Segment:
    """Time that an engine spent on one thing: a channel's kernel, or None: a switch or nothing."""

    start: int
    end: int
    channel: int | None
    group: int | None


class Card:
    """A card and its programs; identifiers are those of the library."""

    def __init__(
        self, library: ctypes.CDLL, *, engines: int = 1, switch: int = 0, save: int = 0, command: int = 0
    ) -> None:
        """Make a card; times in nanoseconds."""
        self.library = library
        setup = CSetup(engines, switch, save, command)
        self.work = ctypes.c_void_p(library.work_create(ctypes.byref(setup)))
        assert self.work.value
        self.play = ctypes.c_void_p(library.work_play_create(self.work))
        self.ended: list[Done] = []
        self.on_done: Callable[[Done], None] | None = None
        self.callback = DONE(self._done)
        library.work_play_on_done(self.play, self.callback, None)
        for destroy, what in ((library.work_destroy, self.work), (library.work_play_destroy, self.play)):
            weakref.finalize(self, destroy, what)  # the last one first

    def _done(self, _ctx: int | None, done: ctypes._Pointer[Done]) -> None:
        copy = Done.from_buffer_copy(done.contents)
        self.ended.append(copy)
        if self.on_done:
            self.on_done(copy)

    @property
    def now(self) -> int:
        return int(self.library.work_now(self.work))

    @property
    def next(self) -> int:
        return int(self.library.work_next(self.work))

    def advance(self, until: int) -> None:
        self.library.work_play_advance(self.play, ctypes.c_uint64(until))

    def group(self, engine: int = 0, us: int = 0) -> int:
        """Make a group, with a timeslice if one is given."""
        made = int(self.library.work_group_add(self.work, engine))
        if us:
            self.timeslice(made, us)
        return made

    def channel(self, group: int, queue: int = 1024) -> int:
        return int(self.library.work_channel_add(self.work, group, queue))

    def submit(self, channel: int, length: int, grain: int = 0, tag: int = 0) -> int:
        kernel = CKernel(length, grain, tag)
        return int(self.library.work_submit(self.work, channel, ctypes.byref(kernel)))

    def program(
        self, channel: int, steps: Sequence[tuple[int, int, int, int]], depth: int = 8, end: int = NEVER
    ) -> int:
        """Start a program of steps (length, grain, pause, count)."""
        program = CProgram(channel, depth, len(steps), 0, 0, end)
        for index, step in enumerate(steps):
            program.step[index] = CStep(*step)
        return int(self.library.work_play_add(self.play, ctypes.byref(program)))

    def rounds(self, program: int) -> int:
        return int(self.library.work_play_rounds(self.play, program))

    # --- scheduling controls ---

    def disable(self, *channels: int, only_scheduling: bool = False) -> int:
        return self._disable(channels, True, only_scheduling)

    def enable(self, *channels: int) -> int:
        return self._disable(channels, False, False)

    def _disable(self, channels: Sequence[int], disable: bool, only: bool) -> int:
        array = (ctypes.c_uint32 * len(channels))(*channels)
        call = self.library.work_channels_disable
        return int(call(self.work, array, len(channels), ctypes.c_bool(disable), ctypes.c_bool(only)))

    def schedule(self, group: int, enable: bool) -> int:
        return int(self.library.work_group_schedule(self.work, group, ctypes.c_bool(enable)))

    def preempt(self, group: int) -> int:
        return int(self.library.work_group_preempt(self.work, group))

    def timeslice(self, group: int, us: int) -> int:
        return int(self.library.work_group_timeslice(self.work, group, ctypes.c_uint64(us)))

    def level(self, group: int, level: int) -> int:
        return int(self.library.work_group_level(self.work, group, level))

    def realtime(self, group: int, on: bool) -> int:
        return int(self.library.work_group_realtime(self.work, group, ctypes.c_bool(on)))

    def interleave(self, on: bool) -> int:
        return int(self.library.work_runlists_interleave(self.work, ctypes.c_bool(on)))

    def restart(self, engine: int = 0) -> int:
        return int(self.library.work_runlist_restart(self.work, engine))

    def remove_group(self, group: int) -> int:
        return int(self.library.work_group_remove(self.work, group))

    def remove_channel(self, channel: int) -> int:
        return int(self.library.work_channel_remove(self.work, channel))

    @property
    def pending(self) -> int:
        return int(self.library.work_pending(self.work))

    # --- figures ---

    def engine(self, engine: int = 0) -> Engine:
        out = Engine()
        assert self.library.work_engine_figures(self.work, engine, ctypes.byref(out)) == 0
        return out

    def of_group(self, group: int) -> Group:
        out = Group()
        assert self.library.work_group_figures(self.work, group, ctypes.byref(out)) == 0
        return out

    def of_channel(self, channel: int) -> Channel:
        out = Channel()
        assert self.library.work_channel_figures(self.work, channel, ctypes.byref(out)) == 0
        return out

    def trace(self, until: int, engine: int = 0) -> list[Segment]:
        """Advance from event to event and return what an engine did in between."""
        out: list[Segment] = []
        while self.now < until:
            figures, start = self.engine(engine), self.now
            self.advance(min(until, int(self.library.work_play_next(self.play))))
            if self.now == start:
                continue
            runs = figures.channel != NONE
            out.append(
                Segment(start, self.now, figures.channel if runs else None, figures.group if runs else None)
            )
        return out


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("work"))
