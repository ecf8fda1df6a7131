# SPDX-License-Identifier: Apache-2.0
"""Runs a lane, and says how its tests ended, which of them were the slowest and what each folder took."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import IO

from tests.lanes.plugin import PLUGINS, REPORTS
from tests.lanes.report import Summary, read_reports
from tests.lanes.table import MACHINE_TESTS, NOT_RUN, ROOT, Shard, Table
from tests.nvidia import archive

# Tests wait for processes and timers as often as for a processor.
WORKERS = (os.cpu_count() or 1) + 1
PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.lanes.plugin")
# NVIDIA's driver on which make test tries the kernel module, if Debian's archive is reached that has it.
DRIVER = "550"
# Runs a command in a process group of its own, hands on signals, and kills the group half a minute after one.
IN_GROUP = ("timeout", "--kill-after=30", "0")

Command = Sequence[str]


@dataclass(frozen=True)
class Result:
    """Result of a lane or a shard; seconds of the clock, and of processors in all its processes."""

    succeeded: bool
    is_whole: bool  # no test was skipped, and no command has said that it could not run
    seconds: float
    processor_seconds: float
    summary: Summary

    @property
    def was_run(self) -> bool:
        """Say whether there is more to tell than that nothing could be run."""
        return (
            not self.succeeded or self.is_whole or self.summary.count("skipped") < len(self.summary.outcomes)
        )


@contextmanager
def reports() -> Iterator[Path]:
    """Give a folder in the checkout for reports: a shard may have a /tmp of its own."""
    place = ROOT / "reports"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lane-", dir=place) as folder:
        yield Path(folder)


class Children:
    """The commands that run now, each in a process group of its own. A signal ends all; none begins then."""

    def __init__(self) -> None:
        self.signal = 0
        self.running: list[subprocess.Popen[bytes]] = []
        # A command is on the list before a signal is handed on. The handler may interrupt itself.
        self.lock = threading.RLock()

    def run_in_turn(
        self, commands: Sequence[Command], environment: Mapping[str, str], output: IO[str] | None = None
    ) -> list[int]:
        """Run commands one after the other; return how each ended that has begun."""
        begun = (self.begin(command, environment, output) for command in commands)
        return [self.await_end(child) for child in begun if child is not None]

    def begin(
        self, command: Command, environment: Mapping[str, str], output: IO[str] | None
    ) -> subprocess.Popen[bytes] | None:
        """Begin a command; None after a signal."""
        words = [*IN_GROUP, *command]
        with self.lock:
            if self.signal:
                return None
            child = subprocess.Popen(
                words, cwd=ROOT, env=environment, stdin=DEVNULL, stdout=output, stderr=output
            )
            self.running.append(child)
        return child

    def await_end(self, child: subprocess.Popen[bytes]) -> int:
        """Return a command's status when it has ended, with its whole group after a signal."""
        status = child.wait()
        self.running.remove(child)
        if self.signal:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        return status

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """End the commands upon a signal; this program then ends by the same, when it has tidied up."""
        # nohup has the first of these ignored.
        first = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
        numbers = (*first, signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.interrupt) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.signal:
            signal.raise_signal(self.signal)
            raise SystemExit(128 + self.signal)  # it was ignored

    def interrupt(self, number: int, _: object) -> None:
        """Interrupt the commands, so that tests tidy up."""
        with self.lock:
            self.signal = number
            for child in [*self.running]:
                child.send_signal(signal.SIGINT)


def run_commands(
    commands: Sequence[Command], beside: Sequence[Command] = (), variables: Mapping[str, str] | None = None
) -> Result:
    """Run commands in turn, and others beside them, whose output follows. A failure ends none of them.

    `variables` are those of the commands beside.
    """
    began, used = time.monotonic(), processor_seconds()
    children = Children()
    with (
        children.ended_by_signals(),
        reports() as folder,
        tempfile.TemporaryFile("w+") as output,
        ThreadPoolExecutor(2) as pool,
    ):
        environment = {**os.environ, REPORTS: str(folder), PLUGINS: "tests.lanes.plugin"}
        run_beside = partial(children.run_in_turn, beside, {**environment, **(variables or {})}, output)
        jobs = [pool.submit(children.run_in_turn, commands, environment), pool.submit(run_beside)]
        # A signal is acted upon in this thread, and not before a wait of it ends.
        while wait(jobs, timeout=0.1).not_done:
            pass
        statuses = {status for job in jobs for status in job.result()}
        output.seek(0)
        sys.stdout.write(output.read())
        summary = read_reports(folder)
    succeeded = statuses <= {0, NOT_RUN} and summary.count("failed") == 0
    is_whole = NOT_RUN not in statuses and summary.count("skipped") == 0
    took = time.monotonic() - began, processor_seconds() - used
    return Result(succeeded, is_whole, *took, summary)


def processor_seconds() -> float:
    """Return what this process and its ended children have used of processors."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def run_check(table: Table) -> Result:
    """Run what one runs after each edit."""
    command = [*on_workers(), "--lane-test", "--hypothesis-profile=check", "-q", *table.check]
    return run_commands([command])


def run_test(table: Table) -> Result:
    """Run all that no shard has taken over, with one virtual machine beside this machine's tests."""
    here = [*on_workers(), "--lane-test", f"--ignore={MACHINE_TESTS}", "tests"]
    # To compile a driver takes longer than one test may.
    machine = [[sys.executable, "-m", "tests.vm.prepare"], [*PYTEST, *table.machine]]
    return run_commands([here], [[*first(), *command] for command in machine], driver_variables())


def first() -> tuple[str, ...]:
    """Return what has a command come before others: the machine's tests run one by one, so they end last."""
    return ("nice", "-n", "-5") if os.geteuid() == 0 else ()


def driver_variables() -> dict[str, str]:
    """Return the variable that selects NVIDIA's own driver, if it can be had. Print which driver it is."""
    try:
        archive.package("nvidia-open-kernel-source", archive.release(DRIVER).debian)
    except archive.NotInArchiveError as why:
        print(f"test: the kernel module runs on the fake driver, not on NVIDIA's: {why}", flush=True)
        return {}
    print(f"test: the kernel module runs on NVIDIA's driver {DRIVER}, on a card of software", flush=True)
    return {"CGPU_VM_DRIVER": DRIVER}


def run_shard(shard: Shard) -> Result:
    """Run one shard of make test-release."""
    commands = shard.commands or ((*on_workers(), "--hypothesis-profile=release", *shard.tests),)
    return run_commands(commands)


def on_workers() -> tuple[str, ...]:
    """Return a pytest with workers, each with a /run of its own."""
    return (*PYTEST, "--own-run", f"--numprocesses={WORKERS}")
