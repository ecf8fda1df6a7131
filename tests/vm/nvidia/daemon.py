# SPDX-License-Identifier: Apache-2.0
"""cgpud in the guest, over the driver that is loaded there, and programs in its slices."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands import ENFORCE, eventually
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, unload_driver
from tests.vm.harness.process import Finished, Process
from tests.vm.harness.sliced_node import LOOK_AT, POOLED, View, parse
from tests.vm.harness.slices import GIB, PROBE
from tests.vm.harness.store import ROOT

TREE = "/run/cgpu_km"
RUN = "/run/cgpu"
SECCOMP_SOCKET = f"{RUN}/seccomp.sock"
CGPUD = ROOT / ".venv" / "bin" / "cgpud"
UNDER_LISTENER = ROOT / "tests" / "daemon" / "sliced.py"
SECONDS = 60.0
START_SECONDS = 180.0  # Python is slow under emulation
# As the unit asks for: with fewer open files nothing can be exported (docs/engines.md).
START = """
modprobe fuse
cat >/run/cgpud.yaml
ulimit -n 16384
exec "$1" --config /run/cgpud.yaml
"""
ENTER = """
mkdir -p "/sys/fs/cgroup/$1"
echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
shift
exec "$@"
"""
# The engine keeps the cgroup that it finds: the process has to be in its own by then.
REGISTER = f"""
until /bin/busybox grep -q "/$1$" "/proc/$2/cgroup"; do /bin/busybox sleep 0.05; done
echo "create id=$1 pid=$2 $3" >{TREE}/inst_ctl
"""
FORGET_PEAK = "echo >/proc/opencgpu_card"


def sliced_command(container: str) -> list[str]:
    """Return what stands in front of a program so that cgpud answers its calls, as a runtime would."""
    return ["/usr/bin/python3", "-I", str(UNDER_LISTENER), SECCOMP_SOCKET, container]


@dataclass
class GuestDaemon:
    """One cgpud. Containers are processes with a cgroup and a seccomp listener, without any runtime."""

    machine: Machine
    config: str = "{}\n"
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    processes: list[Process] = field(default_factory=list)

    def start(self) -> None:
        """Start it. Under CGPU_TEST_ENFORCE=off it enforces nothing."""
        config = "enforce: false\n" if os.environ.get(ENFORCE) == "off" else self.config
        command = ["/bin/busybox", "sh", "-euc", START, "sh", str(CGPUD)]
        self.machine.run(command, input=config, timeout=START_SECONDS)

    def command(self, *options: str) -> Finished:
        return self.machine.run([CGPUD, *options], timeout=START_SECONDS)

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.command("--status").stdout)
        return answer

    def log(self) -> str:
        return self.machine.read_file(f"{RUN}/cgpud.log").decode()

    def read(self, node: str) -> str:
        return self.machine.read_file(f"{TREE}/{node}").decode()

    def view(self) -> View:
        """Return the figures of the driver's own allocator, and of the tree."""
        return parse(self.machine.shell(LOOK_AT, TREE).stdout)

    def await_empty(self) -> None:
        seconds = self.machine.scaled(SECONDS)
        eventually(
            lambda: self.view().empty_but(POOLED, shown=False),
            f"nothing of any container is left: {self.view()}",
            seconds,
        )

    def forget_peak(self) -> None:
        """Have the witness begin anew; no container may have memory."""
        self.machine.shell(FORGET_PEAK)

    def start_program(self, container: str, *command: str | Path, register: int = 0) -> Process:
        """Start a program under a listener, in the container that is registered with it or was before."""
        words = [self.machine.seen(word) if isinstance(word, Path) else word for word in command]
        argv = ["/bin/busybox", "sh", "-euc", ENTER, "sh", container, *sliced_command(container), *words]
        process = self.machine.start(argv, input=None, env={"SLICED_WAIT": "1"})
        self.processes.append(process)
        if register:
            self.machine.shell(REGISTER, container, str(process.pid), f"gpu=0:{register}")
        process.write("\n")
        return process

    def new_name(self) -> str:
        return f"sliced{next(self.numbers)}"

    def hold(self, *words: str, size: int = GIB, name: str | None = None) -> Process:
        """Run the probe in a new container, and have it keep what it got until its input ends."""
        process = self.start_program(name or self.new_name(), PROBE, *words, "count", "hold", register=size)
        process.await_output("count ", timeout=self.machine.scaled(SECONDS))
        return process

    def probe(self, *words: str, size: int = GIB) -> Finished:
        process = self.start_program(self.new_name(), PROBE, *words, register=size)
        return process.finish(self.machine.scaled(SECONDS))

    def join(self, container: str, words: Sequence[str]) -> Finished:
        """Run the probe in a container that is there, as docker exec would."""
        return self.start_program(container, PROBE, *words).finish(self.machine.scaled(SECONDS))

    def clear(self) -> None:
        for process in self.processes:
            if process.running:
                process.stop()
        self.processes.clear()
        self.await_empty()

    def stop(self) -> None:
        self.command("--stop", "--force")


def begin(machine: Machine) -> GuestDaemon:
    load_driver(machine)
    made = GuestDaemon(machine)
    made.start()
    return made


def end(daemon: GuestDaemon) -> None:
    daemon.stop()
    unload_driver(daemon.machine)


@pytest.fixture(scope="module")
def running(machine: Machine) -> Iterator[GuestDaemon]:
    """Return cgpud over the driver, which all tests of a file share."""
    made = begin(machine)
    yield made
    end(made)
