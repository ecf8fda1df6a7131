# SPDX-License-Identifier: Apache-2.0
"""The witness in the guest: it counts the driver's pages from outside the driver, without a module."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Process
from tests.vm.harness.slices import PROBE
from tests.vm.harness.store import ROOT, STORE, run_make
from tests.vm.nvidia.driver import CARD_BYTES

SECONDS = 60.0
CHUNKS, CONTAINERS = 2, 3  # numbers of owners (witness.h)
# A probe that became a jump, as of the tests' own module, has changed the code of the functions.
KEEP_CODE = "echo 0 >/proc/sys/debug/kprobes-optimization"
CGROUP = """
mkdir -p "/sys/fs/cgroup/$1"
stat -c %i "/sys/fs/cgroup/$1"
"""
ENTER = """
echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
shift
exec "$@"
"""
NUMBER = re.compile(r"(\w+)=(-?\d+)")


@cache
def build_witness() -> Path:
    with hold_lock(STORE / "witness.lock"):
        run_make(ROOT / "kmod", "witness")
    return ROOT / "kmod" / "build" / "cgpu-witness"


@dataclass
class GuestWitness:
    """One cgpu-witness, and programs in cgroups that it knows."""

    machine: Machine
    process: Process
    owners: dict[str, int] = field(default_factory=dict)

    def ask(self, line: str, end: str = "\n", *, refused: bool = False) -> str:
        """Return the answer to a line, which is an error only where that is meant."""
        before = len(self.process.out)
        self.process.write(f"{line}\n")
        done = self.process.until(lambda: self.process.out[before:].decode().endswith(end), SECONDS)
        answer = self.process.out[before:].decode()
        assert done, (line, self.process.finished().text)
        assert refused or "error" not in answer, (line, answer)
        return answer

    def bind(self) -> None:
        """Have it know the card, by a page that a program of ours takes."""
        taker = self.machine.start([PROBE, "hold", "alloc=64K", "free"], input=None)
        taker.await_output("hold", timeout=SECONDS)
        self.ask(f"bind 0 {taker.pid}")
        assert taker.finish(SECONDS).returncode == 0

    def watch(self, cgroup: str) -> None:
        self.owners[cgroup] = len(self.owners) + CONTAINERS
        number = self.machine.shell(CGROUP, cgroup).stdout.strip()
        self.ask(f"watch {self.owners[cgroup]} {number}")

    def start_program(
        self, cgroup: str, *words: str, program: Path = PROBE, on: str | None = None
    ) -> Process:
        """Start a program in a cgroup; `on` names the processor."""
        pinned = ["/bin/busybox", "taskset", "-c", on] if on else []
        argv = [
            "/bin/busybox",
            "sh",
            "-euc",
            ENTER,
            "sh",
            cgroup,
            *pinned,
            self.machine.seen(program),
            *words,
        ]
        return self.machine.start(argv, input=None)

    def hold(self, cgroup: str, *words: str, on: str | None = None) -> Process:
        process = self.start_program(cgroup, *words, "count", "hold", on=on)
        process.await_output("count ", timeout=self.machine.scaled(SECONDS))
        return process

    def show(self) -> dict[int, int]:
        """Return the bytes of each owner. Nothing may be missed."""
        used = {}
        for line in self.ask("show", "end\n").splitlines():
            figures = {name: int(value) for name, value in NUMBER.findall(line)}
            if "owner" in figures:
                used[figures["owner"]] = figures["given"] - figures["back"]
            elif "missed" in figures:
                assert (figures["missed"], figures["lost"]) == (0, 0), line
        return used

    @property
    def chunks(self) -> int:
        return self.show().get(CHUNKS, 0)

    def of(self, cgroup: str) -> int:
        return self.show().get(self.owners[cgroup], 0)


def start_witness(machine: Machine, answer: str, *, only: str = "all") -> Process:
    """Start it, with all capabilities or only these, and wait for what it says first."""
    machine.shell(KEEP_CODE)
    bounds = ["setpriv", f"--bounding-set=-all,+{only}", "--inh-caps=-all"]
    process = machine.start([*bounds, machine.seen(build_witness()), str(CARD_BYTES)], input=None)
    process.await_output(answer, timeout=SECONDS)
    return process


def begin_witness(machine: Machine, *, bind: bool = True) -> GuestWitness:
    """Have it count."""
    made = GuestWitness(machine, start_witness(machine, "processors "))
    if bind:
        made.bind()
    return made
