# SPDX-License-Identifier: Apache-2.0
"""Scheduler and card step by step: containers come, go and change from outside (live.c)."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Self

from benchmarks.shares.binding import (
    Case,
    CFigures,
    Container,
    Figures,
    Harness,
    Step,
    c_container,
    c_kernel,
    c_setup,
    figures_of,
)


class Running:
    """A card in operation. `case` says what is in force; its containers are not joined by themselves."""

    def __init__(self, harness: Harness, case: Case) -> None:
        """Open it. Raises ValueError for a setup that cannot be run."""
        self.library, self.case, self.now = harness.library, case, 0
        self.members: dict[int, Container] = {}
        self.handle = ctypes.c_void_p(self.library.shares_open(ctypes.byref(c_setup(case))))
        if not self.handle.value:
            raise ValueError(f"a case that cannot be run: {case}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.shares_close(self.handle)

    def call(self, name: str, *values: object) -> None:
        """Call a function. Raises ValueError when it refuses."""
        if getattr(self.library, f"shares_{name}")(self.handle, *values) != 0:
            raise ValueError(f"{name}{values}: refused")

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
        out = CFigures()
        self.library.shares_figures(self.handle, slot, ctypes.byref(out))
        return figures_of(out)

    def owed(self, slot: int) -> int:
        return int(self.library.shares_owed(self.handle, slot))

    def round(self) -> int:
        return int(self.library.shares_round(self.handle))

    def drain(self, longest: int, step: int) -> bool:
        """Let time go on until nothing is queued, at most so long; say whether that was enough."""
        for _ in range(0, longest, step):
            if not any(self.figures(slot).queued for slot in self.members):
                return True
            self.advance(step)
        return False
