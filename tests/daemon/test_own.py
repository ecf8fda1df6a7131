# SPDX-License-Identifier: Apache-2.0
"""What is the daemon's own of slices and of the tree. What every engine does is in tests/conformance."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.daemon.conftest import Drive, MakeDaemon
from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually

SIX = f"gpu=0:{6043 * MIB}"


def test_unregistered_container_gets_nothing(daemon: Daemon) -> None:
    """The listener of a container that nobody registered is closed: its driver calls fail."""
    sliced = daemon.slice(9, "", "info", register=False)
    sliced.finish()
    assert sliced.process.returncode != 0
    # The listener is closed first.
    eventually(lambda: "is not registered" in daemon.log(), "nothing was logged")


def test_enforcement_off(make_daemon: MakeDaemon) -> None:
    """With enforcement off the same program takes more than its slice: the limit comes from the engine."""
    daemon = make_daemon("T4", "enforce: false\n")
    assert "status=0x51" not in daemon.slice(1, SIX, "alloc=6G", "alloc=1G").finish()


@pytest.mark.enforcement
def test_cards_in_another_order(base: Path, make_daemon: MakeDaemon, drive: Drive) -> None:
    """Where the second card was attached first, a container has the card that it was given, and no other."""
    drive("580.142", cards="T4:2")
    first = os.open(base / "run" / "sim" / "nvidia1", os.O_RDWR)
    daemon = make_daemon("T4:2")
    os.close(first)
    for gpu in (0, 1):
        mine, other = f"gpu={gpu}", f"gpu={1 - gpu}"
        words = (mine, "fill=2M", "hold", other, "expect-errno=1", "alloc=2M")
        sliced = daemon.slice(gpu + 1, f"gpu={gpu}:{64 * MIB}", *words)
        assert f"bytes={64 * MIB} " in sliced.line("fill")
        assert daemon.used(sliced, gpu) == 64 * MIB
        assert daemon.instances(1 - gpu) == []
        sliced.finish("\n")
        assert sliced.process.returncode == 0


def shell(daemon: Daemon, line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line inside the tree."""
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=daemon.tree, capture_output=True, text=True, check=False
    )


def test_shell(daemon: Daemon) -> None:
    """The shell's own means are enough: cat, echo with > and >>, ls."""
    for arrow in (">", ">>"):
        assert shell(daemon, f"echo 3 {arrow} 0/policy && cat 0/policy").stdout == "3\n"
        assert shell(daemon, f"echo 1 {arrow} 0/policy && cat 0/policy").stdout == "1\n"
    assert "inst_ctl" in shell(daemon, "ls -l").stdout


def test_the_log_says_why(daemon: Daemon) -> None:
    """The writer of a wrong value gets an errno alone; a line of the log has file and bounds."""
    assert shell(daemon, "echo 9 > 0/policy").returncode != 0
    said = '0/policy: "9" was refused: expected 0 (fair share), 1 (preemptive), '
    eventually(lambda: said in daemon.log(), "the log has file and bounds", 10)


def test_nobody_else_gets_in(daemon: Daemon) -> None:
    """The mount itself is closed to all but root, whatever its nodes allow."""
    assert stat.S_IMODE(daemon.tree.stat().st_mode) == 0o700


def test_no_core_to_upgrade(daemon: Daemon) -> None:
    """The daemon has no second part that could be exchanged while it runs."""
    with pytest.raises(OSError, match="Device or resource busy"):
        daemon.write("upgrade", "1\n")
    assert daemon.read("upgrade") == "0\n"
