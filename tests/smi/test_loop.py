# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi -l: looks again, ends cleanly, lives with containers that stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.client.cards import read_cards
from cgpu.client.stat import GpuStat
from cgpu.client.tree import Tree

from .conftest import TRAINER


def start(tree: Path, *options: str) -> subprocess.Popen[str]:
    """Start cgpu-smi as a program of its own that looks ten times a second."""
    # A run in the background of a script has SIGINT ignored, and its children inherit that.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program += "; from cgpu.smi.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "--tree", str(tree), "-l", "0.1", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_json_lines(tree: Path) -> None:
    """With --json each look is one line; an interrupt ends the loop with status 0 and nothing on stderr."""
    with start(tree, "--json") as running:
        assert running.stdout is not None
        looks = [json.loads(running.stdout.readline()) for _ in range(3)]
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=240)
    assert (running.returncode, error) == (0, "")
    assert [gpu["index"] for gpu in looks[2]["gpus"]] == [0, 1]
    assert looks[0]["time"] < looks[1]["time"] < looks[2]["time"]


def test_csv(tree: Path) -> None:
    """With --csv the header comes once; a reader that closes the pipe ends the loop as an interrupt does."""
    with start(tree, "--csv") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        lines = [running.stdout.readline() for _ in range(5)]
        running.stdout.close()
        assert running.wait(timeout=240) == 0
        assert running.stderr.read() == ""
    assert [line.startswith("time,") for line in lines] == [True, False, False, False, False]


def test_engine_goes(tree: Path) -> None:
    """An engine that ends during the loop ends it with status 1 and the command that helps."""
    with start(tree) as running:
        assert running.stdout is not None
        running.stdout.readline()
        (tree / "version").unlink()
        _, error = running.communicate(timeout=240)
    assert running.returncode == 1
    assert error.endswith(f": {paths.daemon_command('start')}\n")


def test_card_goes_meanwhile(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that the module loses while it is read is left out."""
    read = Tree.gpu_stat

    def goes(self: Tree, gpu: int) -> GpuStat:
        if gpu == 1:
            shutil.rmtree(tree / "1")
        return read(self, gpu)

    monkeypatch.setattr(Tree, "gpu_stat", goes)
    assert [card.index for card in read_cards(Tree(str(tree)))] == [0]


@pytest.mark.parametrize("last", ["meminfo", "owner"])
def test_container_stops_meanwhile(tree: Path, monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    """A container that goes while it is read is left out."""
    read = Tree.read

    def stops(self: Tree, *parts: str) -> str:
        if parts[-1] == last and parts[1] == TRAINER[:12]:
            shutil.rmtree(tree / "0" / TRAINER[:12])
        return read(self, *parts)

    monkeypatch.setattr(Tree, "read", stops)
    assert [one.directory for one in read_cards(Tree(str(tree)))[0].containers] == ["web"]


def test_names_of_other_nodes(tree: Path) -> None:
    """A name in the tree's root that is no number is no GPU; a file in a GPU's directory is no container.

    An engine without GPUs is no error.
    """
    os.mkdir(tree / "policy")
    (tree / "0" / "node_of_a_newer_engine").write_text("1\n")
    assert [gpu.index for gpu in read_cards(Tree(str(tree)))] == [0, 1]
    assert len(read_cards(Tree(str(tree)))[0].containers) == 2
    for gpu in ("0", "1"):
        shutil.rmtree(tree / gpu)
    assert read_cards(Tree(str(tree))) == ()
