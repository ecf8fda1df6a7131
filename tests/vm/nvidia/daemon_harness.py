# SPDX-License-Identifier: Apache-2.0
"""The attacks' harness for cgpud on NVIDIA's driver: containers are cgroups with a listener."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.attacks.attack import numbers
from tests.attacks.harness import DAEMON, LIMIT, Seen, Tenant, Word
from tests.attacks.module_harness import GuestHarness, ModuleRunning
from tests.vm.harness.process import Finished, Process
from tests.vm.harness.slices import PROBE
from tests.vm.nvidia.daemon import SECONDS, GuestDaemon


@dataclass(frozen=True)
class GuestTenant:
    """A slice, with a first process that does nothing."""

    daemon: GuestDaemon
    name: str
    first: Process

    def start(self, *command: Word) -> ModuleRunning:
        words = [word if isinstance(word, Path) else str(word) for word in command]
        process = self.daemon.start_program(self.name, *words)
        return ModuleRunning(process, self.daemon.machine.scaled(SECONDS))

    def run(self, *command: Word) -> Finished:
        return self.start(*command).finish()


class GuestDaemonHarness(GuestHarness):
    """One machine with cgpud, and the slices of one attack."""

    engine = DAEMON

    def __init__(self, daemon: GuestDaemon) -> None:
        self._daemon = daemon
        super().__init__(daemon.machine, daemon.processes)

    def tenant(self) -> GuestTenant:
        name = self._daemon.new_name()
        first = self._daemon.start_program(name, PROBE, "hold", register=LIMIT)
        first.await_output("hold", timeout=self._daemon.machine.scaled(SECONDS))
        return GuestTenant(self._daemon, name, first)

    def seen(self, tenant: Tenant) -> Seen:
        assert isinstance(tenant, GuestTenant)
        view = self._daemon.view()
        return Seen(view.used[0, tenant.name], view.cards[0]["used"])

    def refused(self) -> int:
        """Read it."""
        return numbers(self._daemon.read("stat"))["refused"]

    def drift(self) -> int:
        return int(self._daemon.read("0/drift"))

    def log(self) -> str:
        return self._daemon.log()

    def clear(self) -> None:
        for process in self._daemon.processes:
            # A process that has left its group ends with its input.
            if process.running:
                process.close_input()
        self._daemon.clear()
