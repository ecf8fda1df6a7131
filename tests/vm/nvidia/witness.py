# SPDX-License-Identifier: Apache-2.0
"""The witness in the guest: it counts the driver's pages from outside the driver, without a module."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cgpu.kmod.daemon.witness.places import Places, find_places, read_symbols
from tests.integration.commands import hold_lock
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Process
from tests.vm.harness.slices import PROBE
from tests.vm.harness.store import ROOT, STORE, run_make
from tests.vm.nvidia.driver import CARD_BYTES

SECONDS = 60.0
CHUNKS, CONTAINERS = 2, 3  # numbers of owners (witness.h)
# Symbols of the driver's module. A probe that became a jump has changed the code that is read here.
SYMBOLS = """
echo 0 >/proc/sys/debug/kprobes-optimization
grep -E '\\[nvidia\\]$|__x86_return_thunk$' /proc/kallsyms
"""
CGROUP = """
mkdir -p "/sys/fs/cgroup/$1"
stat -c %i "/sys/fs/cgroup/$1"
"""
ENTER = """
echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
shift
exec "$@"
"""
ENTRY = bytes.fromhex("f30f1efa")  # endbr64, by which functions begin
PROBED = b"\xcc" + ENTRY[1:]  # the same with a kprobe, such as the tests' own module has
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

    def read_code(self, address: int, size: int) -> bytes:
        code = bytes.fromhex(self.ask(f"code {address:#x} {size}").split()[1])
        return code.replace(PROBED, ENTRY, 1)

    def find_places(self) -> Places:
        symbols = read_symbols(self.machine.shell(SYMBOLS, timeout=SECONDS).stdout.splitlines())
        return find_places(symbols, self.read_code)

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


def begin_witness(machine: Machine, *, bind: bool = True, only: str = "all") -> GuestWitness:
    """Start it, with all capabilities or only these, and have it count."""
    bounds = ["setpriv", f"--bounding-set=-all,+{only}", "--inh-caps=-all"]
    process = machine.start([*bounds, machine.seen(build_witness()), str(CARD_BYTES)], input=None)
    process.await_output("loaded", timeout=SECONDS)
    made = GuestWitness(machine, process)
    made.ask(made.find_places().order())
    if bind:
        made.bind()
    return made
