# SPDX-License-Identifier: Apache-2.0
"""Calls that were in the driver when the daemon was killed, by programs that gain from it."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.harness import MIB, Daemon, built
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
