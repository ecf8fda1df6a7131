# SPDX-License-Identifier: Apache-2.0
"""The engines of a simulated card through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import weakref
from pathlib import Path
from typing import Final

from benchmarks.shares.binding import CKernel, CSetup
from tests.structs import members

SIM: Final = Path(__file__).resolve().parents[3] / "kmod" / "sim" / "gpu"
NONE: Final = 0xFFFFFFFF
UNIT: Final = 1024  # nanoseconds in a unit of a timeslice
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes")


class Done(ctypes.Structure):
    _fields_ = members("u32 channel group", "u64 tag submitted started ended")


class Engine(ctypes.Structure):
    _fields_ = members("u64 busy switching idle loads", "u32 group channel")


class Group(ctypes.Structure):
    _fields_ = members("u64 busy switching loads submitted completed cancelled queued slice")


DONE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Done))


def build(output: Path) -> ctypes.CDLL:
    """Compile the engines as a library; undefined behaviour ends the process."""
    library = output / "libwork.so"
    trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    sources = map(str, sorted(SIM.glob("work*.c")))
    options = ["-std=gnu11", "-g", "-O2", *WARNINGS, *trap, f"-I{SIM}", "-fPIC", "-shared"]
    command = ["cc", *options, *sources, "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    out = ctypes.CDLL(str(library))
    out.work_create.restype = ctypes.c_void_p
    for name in ("work_group_add", "work_channel_add"):
        getattr(out, name).restype = ctypes.c_uint32
    for name in ("work_now", "work_slice"):
        getattr(out, name).restype = ctypes.c_uint64
    return out


class Card:
    """A card with one engine; identifiers are those of the library."""

    def __init__(self, library: ctypes.CDLL, *, switch: int = 0, save: int = 0, command: int = 0) -> None:
        """Make a card; times in nanoseconds."""
        self.library = library
        setup = CSetup(1, switch, save, command)
        self.work = ctypes.c_void_p(library.work_create(ctypes.byref(setup)))
        assert self.work.value
        self.ended: list[Done] = []
        self.callback = DONE(self._done)
        library.work_on_done(self.work, self.callback, None)
        weakref.finalize(self, library.work_destroy, self.work)

    def _done(self, _ctx: int | None, done: ctypes._Pointer[Done]) -> None:
        self.ended.append(Done.from_buffer_copy(done.contents))

    @property
    def now(self) -> int:
        return int(self.library.work_now(self.work))

    def advance(self, until: int) -> None:
        self.library.work_advance(self.work, ctypes.c_uint64(until))

    def group(self, us: int = 0) -> int:
        """Make a group, with a timeslice if one is given."""
        made = int(self.library.work_group_add(self.work, 0))
        if us:
            self.timeslice(made, us)
        return made

    def channel(self, group: int) -> int:
        return int(self.library.work_channel_add(self.work, group, 1024))

    def submit(self, channel: int, length: int, grain: int = 0, tag: int = 0) -> int:
        kernel = CKernel(length, grain, tag)
        return int(self.library.work_submit(self.work, channel, ctypes.byref(kernel)))

    # --- scheduling controls ---

    def disable(self, channel: int, *, only_scheduling: bool = False) -> int:
        return self._disable(channel, disable=True, only=only_scheduling)

    def enable(self, channel: int) -> int:
        return self._disable(channel, disable=False, only=False)

    def _disable(self, channel: int, *, disable: bool, only: bool) -> int:
        array = (ctypes.c_uint32 * 1)(channel)
        call = self.library.work_channels_disable
        return int(call(self.work, array, 1, ctypes.c_bool(disable), ctypes.c_bool(only)))

    def schedule(self, group: int, *, enable: bool) -> int:
        return int(self.library.work_group_schedule(self.work, group, ctypes.c_bool(enable)))

    def preempt(self, group: int) -> int:
        return int(self.library.work_group_preempt(self.work, group))

    def timeslice(self, group: int, us: int) -> int:
        return int(self.library.work_group_timeslice(self.work, group, ctypes.c_uint64(us)))

    def level(self, group: int, level: int) -> int:
        return int(self.library.work_group_level(self.work, group, level))

    def realtime(self, group: int, *, on: bool) -> int:
        return int(self.library.work_group_realtime(self.work, group, ctypes.c_bool(on)))

    def interleave(self, *, on: bool) -> int:
        return int(self.library.work_runlists_interleave(self.work, ctypes.c_bool(on)))

    def restart(self) -> int:
        return int(self.library.work_runlist_restart(self.work, 0))

    # --- figures ---

    def engine(self) -> Engine:
        out = Engine()
        assert self.library.work_engine_figures(self.work, 0, ctypes.byref(out)) == 0
        return out

    def of_group(self, group: int) -> Group:
        out = Group()
        assert self.library.work_group_figures(self.work, group, ctypes.byref(out)) == 0
        return out
