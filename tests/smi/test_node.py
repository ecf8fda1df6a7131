# SPDX-License-Identifier: Apache-2.0
"""Facts of NVIDIA's driver and of processes below /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.client.cards import process_name
from cgpu.client.tree import Tree
from cgpu.smi.node import Versions, described, engine_of
from tests.cards import UUID, card

CARD = card()
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
    other = card(uuid="GPU-ffffffff-1111-2222-3333-444444444444")
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
    names = [process_name(pid, str(tmp_path)) for pid in (1, 2, 3, 4)]
    assert names == ["python3", "a\nb", None, None]
