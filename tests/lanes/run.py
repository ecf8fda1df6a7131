# SPDX-License-Identifier: Apache-2.0
"""Runs a lane, and says how its tests ended, which of them were the slowest and what each folder took."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.plugin import PLUGINS, REPORTS
from tests.lanes.report import Summary, read_reports
from tests.lanes.table import ROOT, Shard, Table

# Tests wait for processes and timers as often as for a processor.
WORKERS = (os.cpu_count() or 1) + 1
PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.lanes.plugin")
MACHINE_TESTS = "tests/vm"
# NVIDIA's driver on which make test tries the kernel module, if Debian's archive is reached that has it.
DRIVER = "550"


@dataclass(frozen=True)
class Result:
    """How a lane or a shard ended; seconds of the clock, and of processors in all its processes."""

    succeeded: bool
    seconds: float
    processor_seconds: float
    summary: Summary


@contextmanager
def reports() -> Iterator[Path]:
    """Give a folder in the checkout for reports: a shard may have a /tmp of its own."""
    place = ROOT / "reports"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lane-", dir=place) as folder:
        yield Path(folder)


def run_commands(commands: Sequence[Sequence[str]], beside: Sequence[Sequence[str]] = ()) -> Result:
    """Run commands in turn, and others beside them, whose output follows. A failure ends none of them."""
    began, used = time.monotonic(), processor_seconds()
    with reports() as folder, tempfile.TemporaryFile("w+") as output:
        environment = {**os.environ, REPORTS: str(folder), PLUGINS: "tests.lanes.plugin"}
        started = [
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output, text=True)
            for command in beside
        ]
        try:
            statuses = [
                subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
                for command in commands
            ]
            statuses += [process.wait() for process in started]
        finally:
            for process in started:
                process.terminate()
        output.seek(0)
        sys.stdout.write(output.read())
        summary = read_reports(folder)
    succeeded = not any(statuses) and summary.failed == 0
    return Result(succeeded, time.monotonic() - began, processor_seconds() - used, summary)


def processor_seconds() -> float:
    """Return what this process and its ended children have used of processors."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def run_check(table: Table) -> Result:
    """Run what one runs after each edit."""
    return run_commands([[*on_workers(), "--hypothesis-profile=check", "-q", *table.check]])


def run_test(table: Table) -> Result:
    """Run all that no shard has taken over, with one virtual machine beside this machine's tests."""
    here = [*on_workers(), "--lane-test", f"--ignore={MACHINE_TESTS}", "tests"]
    machine = ["env", *driver_variables(), *PYTEST, *table.machine]
    return run_commands([here], beside=[machine])


def driver_variables() -> list[str]:
    """Return the variable that selects NVIDIA's own driver, if it can be had. Print which driver it is."""
    asked = [sys.executable, "-m", "tests.nvidia.archive", "nvidia-open-kernel-source", DRIVER]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        print(
            f"test: the kernel module runs on NVIDIA's driver {DRIVER}, on a card made in software",
            flush=True,
        )
        return [f"CGPU_VM_DRIVER={DRIVER}"]
    why = done.stderr.strip().rpartition("\n")[2]
    print(f"test: the kernel module runs on the fake driver, not on NVIDIA's: {why}", flush=True)
    return []


def run_shard(shard: Shard) -> Result:
    """Run one shard of make test-release."""
    commands = shard.commands or ((*on_workers(), "--hypothesis-profile=release", *shard.tests),)
    return run_commands(commands)


def on_workers() -> tuple[str, ...]:
    """Return a pytest with workers, each with a /run of its own."""
    return (*PYTEST, "--own-run", f"--numprocesses={WORKERS}", "--no-loadscope-reorder")
