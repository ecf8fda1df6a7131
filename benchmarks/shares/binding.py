# SPDX-License-Identifier: Apache-2.0
"""The harness through ctypes (harness.h): one case in, figures out."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

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
    _fields_ = (
        ("policy", ctypes.c_uint32),
        ("max_inst", ctypes.c_uint32),
        ("prio_ratio", ctypes.c_uint32),
        ("time_slices", ctypes.c_uint32),
        ("slice", ctypes.c_uint64),
    )


class CSetup(ctypes.Structure):
    _fields_ = (
        ("engines", ctypes.c_uint32),
        ("switch_ns", ctypes.c_uint64),
        ("save_ns", ctypes.c_uint64),
        ("command_ns", ctypes.c_uint64),
    )


class CStep(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("length", "grain", "pause", "count"))


class CKernel(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("length", "grain", "tag"))


class CProgram(ctypes.Structure):
    _fields_ = (
        ("channel", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("steps", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("step", CStep * STEPS),
    )


class CContainer(ctypes.Structure):
    _fields_ = (
        ("weight", ctypes.c_uint32),
        ("highprio", ctypes.c_uint32),
        ("groups", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("join", ctypes.c_uint64),
        ("leave", ctypes.c_uint64),
        ("program", CProgram),
    )


class CShares(ctypes.Structure):
    _fields_ = (
        ("settings", CSettings),
        ("card", CSetup),
        ("levers", ctypes.c_uint32),
        ("tells", ctypes.c_uint32),
    )


class CCase(ctypes.Structure):
    _fields_ = (
        ("setup", CShares),
        ("duration", ctypes.c_uint64),
        ("sample", ctypes.c_uint64),
        ("containers", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("container", CContainer * CONTAINERS),
    )


FIGURES: Final = ("busy", "switching", "submitted", "completed", "queued", "cancelled", "waited", "starved")


class CFigures(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in FIGURES)


class CResult(ctypes.Structure):
    _fields_ = (
        ("container", CFigures * CONTAINERS),
        *(
            (name, ctypes.c_uint64)
            for name in ("busy", "switching", "idle", "idle_with_work", "decisions", "deciding", "levers")
        ),
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
        return Result(
            figures,
            result.busy,
            result.switching,
            result.idle,
            result.idle_with_work,
            result.decisions,
            result.deciding,
            result.levers,
            [list(samples[row * count : (row + 1) * count]) for row in range(rows)],
        )


def figures_of(figures: CFigures) -> Figures:
    """Return what a structure says."""
    return Figures(**{name: getattr(figures, name) for name in FIGURES})


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
