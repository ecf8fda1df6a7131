# SPDX-License-Identifier: Apache-2.0
"""Facts of NVIDIA's driver and of processes below /proc."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.client.tree import Tree
from cgpu.smi.model import Container, Gpu, Process
from cgpu.smi.node import Versions, described, engine_of
from cgpu.smi.processes import with_process_names

UUID = "GPU-00000000-1111-2222-3333-444444444444"
CARD = Gpu(0, UUID, "Tesla T4", policy=1, max_inst=20, prio_ratio=80, total=10, containers=())
VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (dvs-builder@U22)\n"
)


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    card = tmp_path / "gpus" / "0000:3b:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text(f"Model: \t\t Tesla T4\nIRQ:   \t\t 33\nGPU UUID: \t {UUID}\n")
    (tmp_path / "version").write_text(VERSION)
    return tmp_path


def test_driver(driver: Path) -> None:
    """A card has its place on the bus in nvidia-smi's form; a simulated card has none, nor a driver."""
    versions, (gpu,) = described((CARD,), "cgpud 1", str(driver))
    assert (versions, gpu.bus) == (Versions("cgpud 1", "580.142"), "00000000:3B:00.0")
    other = replace(CARD, uuid="GPU-ffffffff-1111-2222-3333-444444444444")
    versions, (gpu,) = described((other,), None, str(driver))
    assert (versions, gpu.bus) == (Versions(), None)


@pytest.mark.parametrize("text", ["", "GPU UUID: GPU-????????-????\n", "GPU UUID:", "\0" * 70000, "\x1b[2J"])
def test_strange_driver(driver: Path, text: str) -> None:
    """A fact that a driver does not tell, or tells in another form, is not known."""
    (driver / "gpus" / "0000:3b:00.0" / "information").write_text(text)
    (driver / "gpus" / "nonsense").mkdir()
    versions, (gpu,) = described((CARD,), None, str(driver))
    assert (versions.driver, gpu.bus) == (None, None)
    assert described((CARD,), None, str(driver / "none"))[0] == Versions()


def test_engine(tree: Path) -> None:
    """The engine is what its tree says, or unknown."""
    assert engine_of(Tree(str(tree))) == "cgpud 0.1.0"
    (tree / "engine").unlink()
    assert engine_of(Tree(str(tree))) is None
    assert engine_of(Tree(str(tree / "none"))) is None


def test_names(tmp_path: Path) -> None:
    """A process that has ended, or has no name, is shown without one."""
    for pid, text in ((1, "python3\n"), (2, "a\nb\n"), (3, "\n")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(text)
    processes = tuple(Process(pid, 1) for pid in (1, 2, 3, 4))
    one = Container("a", "a", {"memsize": 1, "weight": 1, "highprio": 0}, used=0, pids=(), engine_time=0)
    (gpu,) = with_process_names(
        (replace(CARD, containers=(replace(one, processes=processes),)),), str(tmp_path)
    )
    assert [each.name for each in gpu.containers[0].processes] == ["python3", "a\nb", None, None]
