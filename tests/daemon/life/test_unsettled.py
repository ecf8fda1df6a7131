# SPDX-License-Identifier: Apache-2.0
"""Calls that were in the driver when the daemon was killed, by programs that gain from it."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.harness import MIB, Daemon, built, stop_process
from tests.integration.commands import eventually

ONE = f"gpu=0:{2048 * MIB}"
SYS_IOCTL, NV_IOCTL_MAGIC, NV_ESC_RM_FREE, NV_ESC_RM_ALLOC = 16, ord("F"), 0x29, 0x2B


def is_in_driver(pid: int, number: int) -> bool:
    """Tell whether a thread of a daemon waits for the driver's answer to a call."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        words = (thread / "syscall").read_text().split()
        if words[0] == str(SYS_IOCTL) and int(words[2], 16) & 0xFFFF == NV_IOCTL_MAGIC << 8 | number:
            return True
    return False


def test_refused_free_credits_nothing(fresh: Daemon) -> None:
    """A free that the driver refuses ends no charge, also where the daemon is killed during it."""
    sliced = fresh.slice(1, ONE, "free", program=built("unsettled"), until="ready")
    with fresh.stopped_driver() as start_driver:
        sliced.go_on()
        eventually(lambda: is_in_driver(fresh.pid(), NV_ESC_RM_FREE), "the call is not in the driver")
        fresh.crash(start_driver)
    sliced.line("free")
    assert fresh.used(sliced) == 1024 * MIB
    sliced.succeeds("\n")


def test_exchanged_file_hides_nothing(fresh: Daemon) -> None:
    """Memory stays charged where the next daemon cannot free it, by a file of another client."""
    sliced, pid = fresh.slice(1, ONE, "alloc", program=built("unsettled"), until="ready"), fresh.pid()
    with fresh.stopped_driver():
        sliced.go_on()
        eventually(lambda: is_in_driver(pid, NV_ESC_RM_ALLOC), "the call is not in the driver")
        sliced.go_on()
        sliced.line("exchanged")
        # The driver answers, and nobody hears it.
        stop_process(pid)
    eventually(lambda: fresh.given() == 1024 * MIB, "the memory was not made")
    fresh.crash()
    sliced.go_on()
    sliced.line("alloc")
    assert fresh.used(sliced) >= fresh.given()
    # Nor may the one after that believe that all is settled.
    fresh.crash()
    eventually(lambda: fresh.status()["engine"]["workers"] > 0, "no worker has begun")
    assert fresh.used(sliced) >= fresh.given() == 1024 * MIB
    sliced.succeeds("\n")
