# SPDX-License-Identifier: Apache-2.0
"""The harness through ctypes (harness.h): one case in, figures out."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from tests.structs import members

ROOT: Final = Path(__file__).resolve().parents[2]
NEVER: Final = 0xFFFFFFFFFFFFFFFF
FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT, NATIVE = range(6)
US: Final = 1000
MS: Final = 1000 * US
SECOND: Final = 1000 * MS
INSTRUCTION: Final = 1  # a kernel that can be preempted anywhere
STEPS = 8
# The core's scheduler of one GPU, which needs nothing else of the core.
SCHEDULER: Final = ("decide", "deficit", "policies", "slots", "timeslice_table")
CONTAINERS = 25


class CSettings(ctypes.Structure):
    _fields_ = members("u32 policy max_inst prio_ratio time_slices", "u64 slice")


class CSetup(ctypes.Structure):
    _fields_ = members("u32 engines", "u64 switch_ns save_ns command_ns")


class CStep(ctypes.Structure):
    _fields_ = members("u64 length grain pause count")


class CKernel(ctypes.Structure):
    _fields_ = members("u64 length grain tag")


class CProgram(ctypes.Structure):
    _fields_ = (*members("u32 channel depth steps spare", "u64 start end"), ("step", CStep * STEPS))


class CContainer(ctypes.Structure):
    _fields_ = (*members("u32 weight highprio groups spare", "u64 join leave"), ("program", CProgram))


class CShares(ctypes.Structure):
    _fields_ = (("settings", CSettings), ("card", CSetup), *members("u32 levers tells"))


class CCase(ctypes.Structure):
    _fields_ = (
        ("setup", CShares),
        *members("u64 duration sample", "u32 containers spare"),
        ("container", CContainer * CONTAINERS),
    )


class CFigures(ctypes.Structure):
    _fields_ = members("u64 busy switching submitted completed queued cancelled waited starved")


TOTALS: Final = "busy switching idle idle_with_work decisions deciding levers"


class CResult(ctypes.Structure):
    _fields_ = (
        ("container", CFigures * CONTAINERS),
        *members(f"u64 {TOTALS}"),
    )


@dataclass(frozen=True)
class Costs:
    """What a card takes, in nanoseconds: for another context, more to cut a kernel, and until a call acts."""

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
    """What takes part. Without steps it has no process on the card, unless its work comes by hand."""

    weight: int = 1
    steps: tuple[Step, ...] = ()
    highprio: bool = False
    groups: int = 1
    depth: int = 16
    join: int = 0
    leave: int = NEVER
    start: int = 0
    end: int = NEVER
    by_hand: bool = False


@dataclass(frozen=True)
class Case:
    """One run."""

    policy: int
    containers: Sequence[Container]
    duration: int
    slice: int
    max_inst: int = 25
    prio_ratio: int = 80
    time_slices: bool = True
    costs: Costs = field(default_factory=Costs)
    sample: int = 0
    levers: bool = True
    tells: bool = True


@dataclass(frozen=True)
class Figures:
    """What one container had: times in nanoseconds, and numbers of kernels (harness.h)."""

    busy: int
    switching: int
    submitted: int
    completed: int
    queued: int
    cancelled: int
    waited: int
    starved: int

    @property
    def used(self) -> int:
        """Time on the card, its contexts' loading and saving included."""
        return self.busy + self.switching


@dataclass(frozen=True)
class Result:
    """What came of a run, in nanoseconds; samples: each container's used time, after each `sample`."""

    containers: list[Figures]
    busy: int
    switching: int
    idle: int
    idle_with_work: int
    decisions: int
    deciding: int
    levers: int
    samples: list[list[int]]


class Harness:
    """The compiled harness."""

    def __init__(self, output: Path) -> None:
        """Compile it into a folder. Raises OSError when that fails."""
        library = output / "libshares.so"
        kmod = ROOT / "kmod"
        core = kmod / "core"
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
        for name in ("shares_owed", "shares_round"):
            getattr(self.library, name).restype = ctypes.c_uint64
        defaults = CSettings()
        self.library.cgpu_sched_defaults(ctypes.byref(defaults))
        self.slice = int(defaults.slice)

    def run(self, case: Case) -> Result:
        """Run one case. Raises ValueError for one that cannot be run."""
        c, result = c_case(case), CResult()
        rows = case.duration // case.sample if case.sample else 0
        samples = (ctypes.c_uint64 * (rows * len(case.containers)))()
        pointer = samples if rows else None
        if self.library.shares_run(ctypes.byref(c), ctypes.byref(result), pointer) != 0:
            raise ValueError(f"a case that cannot be run: {case}")
        count = len(case.containers)
        figures = [figures_of(one) for one in result.container[:count]]
        totals = {name: getattr(result, name) for name in TOTALS.split()}
        by_row = [list(samples[row * count : (row + 1) * count]) for row in range(rows)]
        return Result(figures, samples=by_row, **totals)


def figures_of(figures: CFigures) -> Figures:
    """Return what a structure says."""
    return Figures(**{one.name: getattr(figures, one.name) for one in fields(Figures)})


def c_setup(case: Case) -> CShares:
    """Return scheduler and card of a case."""
    return CShares(
        settings=CSettings(case.policy, case.max_inst, case.prio_ratio, int(case.time_slices), case.slice),
        card=CSetup(1, case.costs.switch, case.costs.save, case.costs.command),
        levers=int(case.levers),
        tells=int(case.tells),
    )


def c_container(one: Container) -> CContainer:
    """Return the structure of a container."""
    program = CProgram(0, one.depth, len(one.steps), 0, one.start, one.end)
    for number, step in enumerate(one.steps):
        program.step[number] = CStep(step.length, step.grain, step.pause, step.count)
    groups = one.groups if one.steps or one.by_hand else 0
    return CContainer(one.weight, int(one.highprio), groups, 0, one.join, one.leave, program)


def c_kernel(step: Step) -> CKernel:
    """Return one kernel of a step."""
    return CKernel(step.length, step.grain, 0)


def c_case(case: Case) -> CCase:
    """Return the structure that the harness takes."""
    out = CCase(
        setup=c_setup(case), duration=case.duration, sample=case.sample, containers=len(case.containers)
    )
    for index, one in enumerate(case.containers):
        out.container[index] = c_container(one)
    return out
