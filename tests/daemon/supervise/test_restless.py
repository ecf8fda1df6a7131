# SPDX-License-Identifier: Apache-2.0
"""Processes with unseen memory that do not stand still keep no other one from being inspected."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, PROBE, Daemon, Sliced, built
from tests.daemon.supervise.test_unfiltered import children_in, contained, group
from tests.integration.commands import eventually

__all__ = ["group"]

STALLING = 3
SAMPLE_S = 4.0  # one of a container that has kept the reaper waiting, at most, with the samples themselves


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    """End a process of a namespace with its block: the namespace's first process waits until it is reaped."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def others_are_inspected(daemon: Daemon, sliced: Sliced, group: Path) -> None:
    nodes = ["--dev", str(daemon.run / "sim")]
    with children_in(sliced.process.pid):
        unseen = subprocess.Popen([PROBE, *nodes, "alloc=2G", "hold=1000"], stdout=subprocess.DEVNULL)
    with ended(unseen):
        eventually(lambda: daemon.given() >= 2048 * MIB, "it has no memory")
        # The driver tells of later ones first.
        with children_in(sliced.process.pid):
            stalling = daemon.join(sliced, str(built("restless")), *nodes, str(STALLING))
        with ended(stalling.process):
            stalling.line("stalling")
            eventually(lambda: "be looked at (Connection timed out)" in daemon.log(), "none keeps it waiting")
            (group / "cgroup.procs").write_text(str(unseen.pid))
            assert unseen.wait(STALLING * SAMPLE_S + 20) == -signal.SIGKILL


def test_others_of_its_container_are_inspected(make_daemon: MakeDaemon, group: Path) -> None:
    """Each of them has its turn once in a minute, so one behind them that lacks the filter is ended."""
    daemon, sliced = contained(make_daemon, group)
    with ended(sliced.process):
        others_are_inspected(daemon, sliced, group)
