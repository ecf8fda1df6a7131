# SPDX-License-Identifier: Apache-2.0
"""cgpu top beside cgpud with simulated cards: its figures are true."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cgpu.client.tree import Tree
from cgpu.top import reading
from cgpu.top.model import Recorder
from tests.daemon.conftest import MakeDaemon, base, make_daemon
from tests.daemon.harness import MIB, PROBE, Daemon

__all__ = ["base", "make_daemon"]  # fixtures

pytestmark = pytest.mark.root

LIMIT = 5000 * MIB
TOP = [sys.executable, "-m", "cgpu.main", "top"]


def read(daemon: Daemon) -> reading.Read:
    return reading.of_tree(lambda: Tree(str(daemon.tree)), lambda gpus: gpus)


def test_figures_are_the_truth(make_daemon: MakeDaemon) -> None:
    """A slice that has 40 % of its memory shows 40 %; refusals, peak and the process are those that were."""
    daemon = make_daemon("T4:2")
    words = ("alloc=1000M:64k", "alloc=3000M:64k", "free=last", "alloc=1000M:64k", *["alloc=6G"] * 3, "hold")
    sliced = daemon.slice(1, f"gpu=0:{LIMIT}:3", *words, until="hold")
    other = daemon.slice(2, f"gpu=1:{LIMIT}", "hold", until="hold")
    reader, recorder = read(daemon), Recorder()
    first = recorder.add(reader(None))
    one, idle = (next(found for found in first.slices if found.key.gpu == gpu) for gpu in (0, 1))
    view = recorder.add(reader(one.key))
    one, idle = (next(found for found in view.slices if found.key == which.key) for which in (one, idle))
    assert one.container.id == sliced.id
    assert one.memory == pytest.approx(40, abs=0.5)
    assert (one.container.used, one.container.allocated) == (2000 * MIB, LIMIT)
    assert one.container.weight == 3
    assert one.stat is not None
    assert one.stat.peak == 4000 * MIB
    # A call that cgpud's look at the new process interrupts is made again, and its refusal counts again.
    assert one.refused == dict(one.stat.refused)["limit"] >= 3
    assert (idle.memory, idle.refused) == (0.0, 0)
    assert [card.used for card in view.cards] == [2000 * MIB, 0]
    assert [card.gpu.promised for card in view.cards] == [LIMIT, LIMIT]
    assert [(found.held, found.command, found.user) for found in view.processes] == [
        (2000 * MIB, PROBE.name[:15], "root")
    ]
    printed = subprocess.run(
        [*TOP, "--once", "--tree", str(daemon.tree)],
        env={**os.environ, "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    row = next(line for line in printed.splitlines() if line.split()[1:2] == [one.key.directory])
    assert " 40%]" in row
    assert row.split()[-3:] == [f"{one.refused}", "1", "3"]  # refused, processes, weight
    sliced.finish("\n")
    other.finish("\n")
