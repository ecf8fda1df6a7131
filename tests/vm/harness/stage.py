# SPDX-License-Identifier: Apache-2.0
"""Driver, engine and containers for one test, which are gone after it however it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, unload_driver, unload_engine
from tests.vm.harness.process import Process
from tests.vm.harness.sliced_node import View
from tests.vm.harness.slices import Slice, await_empty, slice_of, view


@dataclass
class Stage:
    """What a test has on its machine."""

    machine: Machine
    slices: list[Slice] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)

    def slice(self, name: str, size: int) -> Slice:
        """Make a container with so many bytes of the first card."""
        made = slice_of(self.machine, name, f"0:{size}")
        self.slices.append(made)
        return made

    def start(self, container: Slice, program: Path, *words: object) -> Process:
        """Start a program of the host in a container."""
        process = container.start(program, *(str(word) for word in words))
        self.processes.append(process)
        return process

    def view(self) -> View:
        """Look at card and tree."""
        return view(self.machine)

    def clear(self) -> None:
        """End all that was started, and wait until nothing is left of it."""
        for process in self.processes:
            if process.running:
                process.stop()
        for container in self.slices:
            container.end()
        self.processes.clear()
        self.slices.clear()
        await_empty(self.machine)


@contextmanager
def stage(machine: Machine, **parameters: object) -> Iterator[Stage]:
    """Load the driver, with these parameters, and the engine; unload both at the end."""
    load_driver(machine, **parameters)  # type: ignore[arg-type]  # a module's, by name
    load_engine(machine)
    made = Stage(machine)
    try:
        yield made
    finally:
        made.clear()
        unload_engine(machine)
        unload_driver(machine)


def figures(process: Process, timeout: float) -> dict[str, int]:
    """Wait until a program rests; return the numbers of the line that says so."""
    process.await_output("resting", timeout=timeout)
    process.await_output("\n", timeout=timeout)
    line = next(line for line in process.finished().stdout.splitlines() if line.startswith("resting"))
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
