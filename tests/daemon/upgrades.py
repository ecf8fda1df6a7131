# SPDX-License-Identifier: Apache-2.0
"""Upgrades of a daemon of one's own, and programs that allocate throughout."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cgpu.errors import CgpuError
from cgpu.install.commands.upgrade import daemon as upgrade_daemon
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.program import Program, own
from tests.daemon.harness import Daemon, built
from tests.integration.commands import eventually

LOOKS = "cgpud-looks"  # the processes that look at containers' processes for a daemon
SPAWNER = "cgpud-spawner"  # the one that makes these
FIGURES = re.compile(r"steady calls=(\d+) failed=(\d+) longest_us=(\d+)")


def steady_load() -> Path:
    return built("steady")


def upgrade(daemon: Daemon, program: Program | None = None) -> dict[str, Any]:
    """Have a program take over, this version's unless one is given. Raises CgpuError with the reason."""
    places = Places(daemon.run)
    running = upgrade_daemon.running(places)
    assert running is not None
    return upgrade_daemon.hot(places, running, program or own())


def pids_of(daemon: Daemon) -> list[int]:
    """Return the processes of daemons that run in this directory; not of their keeper, nor their helpers."""
    return [
        one.pid
        for one in psutil.process_iter(["name", "cmdline"])
        if {"--worker", str(daemon.run)} <= set(one.info["cmdline"] or ())
        and one.info["name"] not in (LOOKS, SPAWNER)
    ]


def await_one(daemon: Daemon) -> int:
    """Wait until one daemon serves, and there is no other; return its process."""
    places = Places(daemon.run)

    def is_settled() -> bool:
        try:
            running = upgrade_daemon.running(places)
        except CgpuError:
            return False
        if running is None or pids_of(daemon) != [running.pid]:
            return False
        # Path.exists() raises where a daemon that is just ending answers ENOTCONN.
        return os.path.exists(daemon.tree / "version")

    eventually(is_settled, "one daemon serves")
    return daemon.pid()


def helpers(pid: int) -> set[int]:
    """Return the processes that look at others for a daemon: for each it has a socket and a pidfd."""
    alike = {"name": LOOKS, "cmdline": psutil.Process(pid).cmdline()}
    return {one.pid for one in psutil.process_iter(["name", "cmdline"]) if one.info == alike}


def opened(pid: int) -> int:
    """Return how many descriptors a process has, without those of helpers.

    Pidfds of one process count as one: each worker keeps one of each process whose calls it
    has served, so how many there are depends on how calls were spread.
    """
    others, named = 0, set[str]()
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            target = re.search(r"^Pid:\s+(\S+)", entry.read_text(), re.MULTILINE)
        except OSError:
            continue
        if target:
            named.add(target[1])
        else:
            others += 1
    looking = helpers(pid)
    return others - len(looking) + len(named - {str(one) for one in looking})


def held(pid: int) -> tuple[int, int]:
    """Return what a process has open, as opened() counts, and how many threads.

    The fewest of some moments: each call under way has a few of its own.
    """
    files, threads = set(), set()
    for _ in range(20):
        files.add(opened(pid))
        threads.add(len(os.listdir(f"/proc/{pid}/task")))
        time.sleep(0.01)
    return min(files), min(threads)


@dataclass(frozen=True, slots=True)
class Figures:
    """Calls since the last look, how many failed, and how long the longest took."""

    calls: int
    failed: int
    longest_ms: float


class Steady:
    """A program that allocates and frees without an end."""

    def __init__(self, daemon: Daemon, seed: int, slices: str, every_us: int, gpu: int = 0) -> None:
        words = (str(every_us), str(gpu))
        self.sliced = daemon.slice(seed, slices, *words, program=steady_load(), until="steady begins")

    def look(self) -> Figures:
        self.sliced.go_on()
        found = FIGURES.match(self.sliced.line("steady calls"))
        assert found is not None
        calls, failed, longest = (int(one) for one in found.groups())
        return Figures(calls, failed, longest / 1000)
