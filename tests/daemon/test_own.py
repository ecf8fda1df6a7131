# SPDX-License-Identifier: Apache-2.0
"""Slices and tree of the daemon alone. tests/conformance has what every engine does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.build import uvm_probe
from tests.daemon.conftest import Drive, MakeDaemon
from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually


def test_unregistered_container_gets_nothing(daemon: Daemon) -> None:
    """The listener of an unregistered container is closed: its driver calls fail."""
    sliced = daemon.slice(9, "", "info", register=False)
    sliced.finish()
    assert sliced.process.returncode != 0
    # The listener is closed first.
    eventually(lambda: "is not registered" in daemon.log(), "nothing was logged")


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


def test_without_enforcement_all_is_only_counted(make_daemon: MakeDaemon) -> None:
    """enforce: false refuses no memory of any kind: the limit comes from the engine."""
    daemon = make_daemon("T4", "enforce: false\n")
    words = ("alloc=1G:64k", "export", "free", "alloc=1G:64k", "managed=1002M", "context=11")
    sliced = daemon.slice(1, f"gpu=0:{1024 * MIB}", *words, "count", "hold", until="count")
    assert daemon.used(sliced) >= 1024 * MIB
    sliced.succeeds("\n")
    mapped = ("alloc=600M", "range=600M", "map", "rm-free", "alloc=1000M")
    daemon.slice(2, f"gpu=0:{1000 * MIB}", "uvm", *mapped, program=uvm_probe()).succeeds()


def test_the_log_says_why(daemon: Daemon) -> None:
    """The writer of a wrong value gets an errno alone; a line of the log has file and bounds."""
    with pytest.raises(OSError, match="Invalid argument"):
        daemon.write("0/policy", "9\n")
    said = '0/policy: "9" was refused: expected 0 (fair share), 1 (preemptive), '
    eventually(lambda: said in daemon.log(), "the log has file and bounds")
    # The daemon has no second part that could be exchanged while it runs.
    with pytest.raises(OSError, match="Device or resource busy"):
        daemon.write("upgrade", "1\n")
