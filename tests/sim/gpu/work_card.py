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
UNIT: Final = 1024  # nanoseconds in a unit of a timeslice
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes")


class Group(ctypes.Structure):
    _fields_ = members("u64 busy switching loads submitted completed cancelled queued slice")


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

    def __init__(self, library: ctypes.CDLL) -> None:
        """Make a card on which nothing but work takes time."""
        self.library = library
        self.work = ctypes.c_void_p(library.work_create(ctypes.byref(CSetup(1, 0, 0, 0))))
        assert self.work.value
        weakref.finalize(self, library.work_destroy, self.work)

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

    def submit(self, channel: int, length: int, grain: int) -> int:
        kernel = CKernel(length, grain, 0)
        return int(self.library.work_submit(self.work, channel, ctypes.byref(kernel)))

    # --- scheduling controls ---

    def timeslice(self, group: int, us: int) -> int:
        return int(self.library.work_group_timeslice(self.work, group, ctypes.c_uint64(us)))

    def level(self, group: int, level: int) -> int:
        return int(self.library.work_group_level(self.work, group, level))

    def interleave(self, *, on: bool) -> int:
        return int(self.library.work_runlists_interleave(self.work, ctypes.c_bool(on)))

    def restart(self) -> int:
        return int(self.library.work_runlist_restart(self.work, 0))

    # --- figures ---

    def of_group(self, group: int) -> Group:
        out = Group()
        assert self.library.work_group_figures(self.work, group, ctypes.byref(out)) == 0
        return out
