# SPDX-License-Identifier: Apache-2.0
"""The harness through ctypes (harness.h): scheduler and card in operation."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parents[2]
US: Final = 1000
MS: Final = 1000 * US
SECOND: Final = 1000 * MS
INSTRUCTION: Final = 1  # a kernel that can be preempted anywhere
STEPS = 8
# The core's scheduler of one GPU, which needs nothing else of the core.
SCHEDULER: Final = ("decide", "deficit", "policies", "slots", "timeslice_table")

Fields = tuple[tuple[str, Any], ...]


def u32(*names: str) -> Fields:
    return tuple((name, ctypes.c_uint32) for name in names)


def u64(*names: str) -> Fields:
    return tuple((name, ctypes.c_uint64) for name in names)


class CSettings(ctypes.Structure):
    _fields_ = (*u32("policy", "max_inst", "prio_ratio", "time_slices"), *u64("slice"))


class CSetup(ctypes.Structure):
    _fields_ = (*u32("engines"), *u64("switch_ns", "save_ns", "command_ns"))


class CStep(ctypes.Structure):
    _fields_ = u64("length", "grain", "pause", "count")


class CKernel(ctypes.Structure):
    _fields_ = u64("length", "grain", "tag")


class CProgram(ctypes.Structure):
    _fields_ = (*u32("depth", "steps"), ("step", CStep * STEPS))


class CContainer(ctypes.Structure):
    _fields_ = (*u32("weight", "highprio", "groups", "spare"), ("program", CProgram))


class CShares(ctypes.Structure):
    _fields_ = (("settings", CSettings), ("card", CSetup), *u32("controls", "spare"))


class Figures(ctypes.Structure):
    """Figures of one container: times in nanoseconds, and numbers of kernels (harness.h)."""

    _fields_ = u64("busy", "switching", "submitted", "completed", "queued", "cancelled", "waited", "starved")

    @property
    def used(self) -> int:
        """Time on the card, its contexts' loading and saving included."""
        return int(self.busy + self.switching)


@dataclass(frozen=True)
class Costs:
    """A card's costs, in nanoseconds: of another context, more to cut a kernel, and until a call acts."""

    switch: int = 0
    save: int = 0
    command: int = 0


@dataclass(frozen=True)
class Step:
    """So many kernels of a length, cut at `grain` (0: not at all), then a pause of the program's own."""

    length: int
    grain: int
    count: int = 1
    pause: int = 0


@dataclass(frozen=True)
class Container:
    """A container of a run. Without steps it has no process on the card, unless its work comes by hand."""

    weight: int = 1
    steps: tuple[Step, ...] = ()
    highprio: bool = False
    groups: int = 1
    depth: int = 16
    by_hand: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.steps) or self.by_hand


@dataclass(frozen=True)
class Case:
    """One run."""

    policy: int
    containers: Sequence[Container]
    slice: int
    max_inst: int = 25
    prio_ratio: int = 80
    time_slices: bool = True
    costs: Costs = field(default_factory=Costs)
    controls: bool = True


class Harness:
    """The compiled harness."""

    def __init__(self, output: Path) -> None:
        """Compile it into a folder. Raises OSError when that fails."""
        library = output / "libshares.so"
        kmod = ROOT / "kmod"
        core = kmod / "core"
        bounds = [kmod / "abi" / "config_defaults.py", ROOT / "cgpu" / "config" / "schema.json", output]
        subprocess.run([sys.executable, "-I", *bounds], check=True)
        sources = [
            *sorted(Path(__file__).parent.glob("*.c")),
            *sorted((kmod / "sim" / "gpu").glob("work*.c")),
            *(core / "sched" / f"{name}.c" for name in SCHEDULER),
        ]
        flags = [
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{core}",
            f"-I{core / 'include'}",
            f"-I{output}",
            f"-I{kmod / 'sim' / 'gpu'}",
        ]
        command = ["/usr/bin/cc", *flags, "-fPIC", "-shared", *map(str, sources), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            raise OSError(
                f"the harness does not compile; install gcc: scripts/bootstrap build\n{done.stderr}"
            )
        self.library = ctypes.CDLL(str(library))
        self.library.shares_open.restype = ctypes.c_void_p
        self.library.shares_idle.restype = ctypes.c_uint64
        defaults = CSettings()
        self.library.cgpu_sched_defaults(ctypes.byref(defaults))
        self.slice = int(defaults.slice)


def c_setup(case: Case) -> CShares:
    """Return scheduler and card of a case."""
    return CShares(
        settings=CSettings(case.policy, case.max_inst, case.prio_ratio, int(case.time_slices), case.slice),
        card=CSetup(1, case.costs.switch, case.costs.save, case.costs.command),
        controls=int(case.controls),
    )


def c_container(one: Container) -> CContainer:
    """Return the structure of a container."""
    program = CProgram(one.depth, len(one.steps))
    for number, step in enumerate(one.steps):
        program.step[number] = CStep(step.length, step.grain, step.pause, step.count)
    groups = one.groups if one.has_work else 0
    return CContainer(one.weight, int(one.highprio), groups, 0, program)


def c_kernel(step: Step) -> CKernel:
    """Return one kernel of a step."""
    return CKernel(step.length, step.grain, 0)


class Running:
    """A card in operation, with the containers of a case. `case` says what is in force."""

    def __init__(self, harness: Harness, case: Case, *, without: int | None = None) -> None:
        """Open it, without the container of one slot. Raises ValueError for a case that cannot be run."""
        self.library, self.case, self.now = harness.library, case, 0
        self.members: dict[int, Container] = {}
        self.handle = ctypes.c_void_p(self.library.shares_open(ctypes.byref(c_setup(case))))
        if not self.handle.value:
            raise ValueError(f"a case that cannot be run: {case}")
        for slot, one in enumerate(case.containers):
            if slot != without:
                self.join(slot, one)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.shares_close(self.handle)

    def call(self, name: str, *values: object) -> None:
        """Call a function. Raises ValueError when it refuses."""
        if getattr(self.library, f"shares_{name}")(self.handle, *values) != 0:
            raise ValueError(f"{name}{values}: refused; a case that cannot be run: {self.case}")

    def join(self, slot: int, container: Container) -> None:
        self.call("join", slot, ctypes.byref(c_container(container)))
        self.members[slot] = container

    def leave(self, slot: int) -> None:
        self.call("leave", slot)
        del self.members[slot]

    def change(self, slot: int, weight: int, *, highprio: bool) -> None:
        self.call("change", slot, weight, int(highprio))
        self.members[slot] = replace(self.members[slot], weight=weight, highprio=highprio)

    def set(self, case: Case) -> None:
        """Put the settings of another case in force."""
        self.call("set", ctypes.byref(c_setup(case).settings))
        self.case = case

    def submit(self, slot: int, step: Step) -> None:
        """Launch the kernels of a step in a container whose work comes by hand."""
        self.call("submit", slot, ctypes.byref(c_kernel(step)), step.count)

    def advance(self, ns: int) -> None:
        self.now += ns
        self.library.shares_advance(self.handle, ctypes.c_uint64(self.now))

    def figures(self, slot: int) -> Figures:
        """Return what who is in the slot, or was last, has had."""
        out = Figures()
        self.library.shares_figures(self.handle, slot, ctypes.byref(out))
        return out

    def idle_with_work(self) -> int:
        """Return nanoseconds without work on the card, while anyone had some."""
        return int(self.library.shares_idle(self.handle))
