# SPDX-License-Identifier: Apache-2.0
"""Managed memory whose process has ended, and whose process number another one has got."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.build import client
from tests.daemon.harness import MIB, Daemon, Sliced, eventually

LAST = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 60
A_HAS = 1000 * MIB
B_HAS = 100 * MIB

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not LAST.exists(), reason="this kernel gives no process number that one asks for"),
]


def left_behind(daemon: Daemon) -> tuple[Sliced, int]:
    """Start a container whose mapping is kept by another process than made it; return it with that number."""
    sliced = daemon.slice(1, f"gpu=0:{2000 * MIB}", "sharing", str(A_HAS), program=client("other_owner"))
    number = int(sliced.line("mapping").split()[1])
    sliced.line("mapped")
    return sliced, number


def with_number(number: int, start: Callable[[int], subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """Start processes until one has the number."""
    for attempt in range(TRIES):
        LAST.write_text(str(number - 1))
        process = start(attempt)
        if process.pid == number:
            return process
        process.kill()
        process.communicate()
    pytest.skip(f"process number {number} could not be had")


def test_each_container_has_its_own(make_daemon: Callable[..., Daemon]) -> None:
    """A process of another container is charged for its own address space alone, and keeps no other."""
    daemon = make_daemon()
    a, number = left_behind(daemon)
    slices: list[Sliced] = []

    def start(attempt: int) -> subprocess.Popen[str]:
        words = ("leader", str(B_HAS))
        gpus = f"gpu=0:{2000 * MIB}"
        slices.append(daemon.slice(2 + attempt, gpus, *words, program=client("other_owner")))
        return slices[-1].process

    with_number(number, start)
    b = slices[-1]
    b.line("mapped")
    # Both are looked at, when nothing is about to be mapped any more.
    time.sleep(1.5)
    for sliced in (a, b):
        daemon.enter(sliced, "info").finish()
    assert (daemon.used(a), daemon.used(b)) == (A_HAS, B_HAS)
    a.process.kill()
    a.process.communicate()
    eventually(lambda: daemon.instances() == [b.id[:12]], "it stayed")
    assert daemon.used(b) == B_HAS


def test_a_process_outside_keeps_nothing(make_daemon: Callable[..., Daemon]) -> None:
    """The card has its memory back when the address space is gone, whoever has the number."""
    daemon = make_daemon()
    a, number = left_behind(daemon)
    stranger = with_number(number, lambda _: subprocess.Popen(["sleep", "1000"], text=True))
    try:
        assert daemon.used(a) == A_HAS
        a.process.kill()
        a.process.communicate()
        eventually(lambda: daemon.instances() == [], "the container stayed")
        done = daemon.slice(70, f"gpu=0:{15109 * MIB}", "fill=1M")
        out = done.finish()
        assert done.process.returncode == 0, out
    finally:
        stranger.kill()
        stranger.communicate()
