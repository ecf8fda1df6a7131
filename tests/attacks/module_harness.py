# SPDX-License-Identifier: Apache-2.0
"""The attacks' harness for the kernel module: a fake driver, and containers that are cgroups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.attack import numbers
from tests.attacks.harness import LIMIT, MODULE, Seen, Tenant, Word
from tests.integration.commands import eventually
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import TREE, real_driver
from tests.vm.harness.process import Finished, Process
from tests.vm.harness.sliced_node import POOLED
from tests.vm.harness.slices import Slice, Stage

SECONDS = 60
SCRATCH = "/tmp/attacks"


class ModuleRunning:
    """A program in a container of the guest."""

    def __init__(self, process: Process, patience: float) -> None:
        self._process = process
        self._patience = patience
        self._read = 0

    def _next(self, start: str) -> str | None:
        """Return the next whole line that begins so, if it is there; lines before it are read, too."""
        lines = self._process.out.decode(errors="replace").splitlines(keepends=True)
        for at in range(self._read, len(lines)):
            if lines[at].startswith(start) and lines[at].endswith("\n"):
                self._read = at + 1
                return lines[at]
        return None

    def line(self, start: str) -> str:
        found: list[str | None] = [None]

        def there() -> bool:
            found[0] = self._next(start)
            return found[0] is not None or self._process.status is not None

        self._process.until(there, self._patience)
        assert found[0] is not None, (
            f"no {start!r} from {self._process.args}: {self._process.finished().text}"
        )
        return found[0]

    def go_on(self) -> None:
        self._process.write("\n")

    def kill(self) -> None:
        self._process.kill()

    def finish(self) -> Finished:
        return self._process.finish(self._patience)


@dataclass(frozen=True)
class ModuleTenant:
    """A slice."""

    stage: Stage
    container: Slice

    def start(self, *command: Word) -> ModuleRunning:
        machine = self.stage.machine
        words = [machine.seen(word) if isinstance(word, Path) else str(word) for word in command]
        process = self.container.start(*words)
        self.stage.processes.append(process)
        return ModuleRunning(process, machine.scaled(SECONDS))

    def run(self, *command: Word) -> Finished:
        return self.start(*command).finish()


class GuestHarness:
    """A machine with either engine."""

    emulated = True

    pooled = POOLED if real_driver() else 0
    dev = "/dev"
    scratch = SCRATCH

    def __init__(self, machine: Machine, processes: list[Process]) -> None:
        self._machine = machine
        self._processes = processes
        machine.shell(f"rm -rf {SCRATCH}; mkdir {SCRATCH}")

    def outside(self, *command: Word) -> ModuleRunning:
        words = [self._machine.seen(word) if isinstance(word, Path) else str(word) for word in command]
        self._processes.append(self._machine.start(words, input=None))
        return ModuleRunning(self._processes[-1], self._machine.scaled(SECONDS))

    def path(self, path: Path) -> str:
        return self._machine.seen(path)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        eventually(condition, what, self._machine.scaled(SECONDS))


class ModuleHarness(GuestHarness):
    """One machine. Its slices stay from attack to attack: to make and to end them is dear under emulation."""

    engine = MODULE

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._handed_out = 0
        super().__init__(stage.machine, stage.processes)

    def tenant(self) -> ModuleTenant:
        """Return a slice that this attack does not have yet."""
        if self._handed_out == len(self._stage.slices):
            self._stage.slice(f"tenant{self._handed_out}", LIMIT)
        self._handed_out += 1
        return ModuleTenant(self._stage, self._stage.slices[self._handed_out - 1])

    def seen(self, tenant: Tenant) -> Seen:
        assert isinstance(tenant, ModuleTenant)
        view = self._stage.view()
        return Seen(view.charged[0, tenant.container.name], view.cards[0]["used"])

    def refused(self) -> int:
        return numbers(self._stage.machine.read_file(f"{TREE}/stat").decode())["refused"]

    def drift(self) -> int:
        return int(self._stage.machine.read_file(f"{TREE}/0/drift"))

    def log(self) -> str:
        return self._stage.machine.dmesg()

    def clear(self) -> None:
        """End all that runs, and wait until the driver has nothing of it any more."""
        for process in self._stage.processes:
            # A process that has left its group ends with its input.
            if process.running:
                process.close_input()
                process.stop()
        self._stage.processes.clear()
        self._handed_out = 0
        self.until(self._is_empty, "the driver has nothing")

    def _is_empty(self) -> bool:
        view = self._stage.view()
        left = [view.cards[0].get(name, 0) for name in ("clients", "objects", "files")]
        return view.cards[0]["used"] <= self.pooled and not any([*left, *view.charged.values()])
