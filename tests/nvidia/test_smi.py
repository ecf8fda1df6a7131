# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi of Debian's packages in a slice of a simulated card."""

from __future__ import annotations

import re

import pytest

from tests.integration.engine import RUN
from tests.nvidia.containers import Node
from tests.nvidia.machines import BY_PROCESS, LIMIT, OWN, alongside, beside, box, packages, rows, run

__all__ = ["box"]

pytestmark = pytest.mark.root
needs = packages

MEMORY = "memory.total,memory.used,memory.free"
SCREENS = ("", "-q", "-L", "topo -m", "dmon -c 1", "pmon -c 1", f"--query-gpu={MEMORY} --format=csv")


def smi(box: Node, words: str) -> str:
    """Run nvidia-smi in a slice, beside a process that holds memory."""
    return run(box.sliced, beside(f"nvidia-smi {words}"))


@pytest.mark.enforcement
def test_screen(box: Node) -> None:
    """The screen has the driver's version, and memory as the slice has it: its process, and its limit."""
    screen = smi(box, "")
    assert f"Driver Version: {box.cards.software.release.version} " in screen
    assert re.search(rf" {OWN}MiB / +{LIMIT}MiB ", screen)
    assert re.search(rf" C +/cgpu-probe +{BY_PROCESS}MiB ", screen)


@pytest.mark.enforcement
def test_full(box: Node) -> None:
    """What a process could have of the slice is all of it, and then nothing is free."""
    fill = "/cgpu-probe fill=1M fill=64K:64k"
    query = f"nvidia-smi --query-gpu={MEMORY} --format=csv,nounits"
    (row,) = rows(run(box.sliced, alongside(fill, query)))
    assert list(row.values()) == [str(LIMIT), str(LIMIT), "0"]


def test_processes(box: Node) -> None:
    """The list of processes has the container's own, by its numbers there, and not another one's."""
    script = beside("echo $!; nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader")
    number, *listed = run(box.sliced, script).splitlines()
    assert listed == [f"{number}, /cgpu-probe, {BY_PROCESS} MiB"]


def test_nothing_refused(box: Node) -> None:
    """Nothing that these screens ask the driver for is refused by the engine, or unknown to it."""
    before = box.engine.status()["engine"]
    for words in SCREENS:
        smi(box, words)
    after = box.engine.status()["engine"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["refused"] == before["refused"]
    assert after["supervised"] > before["supervised"]
    assert "refused" not in (RUN / "cgpud.log").read_text()
