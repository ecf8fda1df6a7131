# SPDX-License-Identifier: Apache-2.0
"""Cards, and a tree of plain files as an engine has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from cgpu import paths
from cgpu.client.tree import Gpu, Tree

MIB = 1 << 20
T4 = 15109
CONTAINER = "0123456789abcdef" * 4


def uuid(index: int) -> str:
    return f"GPU-b084ae33-e244-0959-cd97-83000000{index:04x}"


def cards(*mib: int, max_inst: int = 20) -> list[Gpu]:
    return [Gpu(index, uuid(index), size * MIB, max_inst) for index, size in enumerate(mib)]


def down(tree: Path) -> str:
    """Return what is said where no engine is behind a tree."""
    return (
        f"the engine at {tree} is not running, so containers with a GPU slice cannot start; "
        f"start it: {paths.daemon_command('start')}"
    )


def refuse_writes(monkeypatch: pytest.MonkeyPatch, number: int, call: str = "write") -> None:
    """Have the engine answer each write, or each open, with an errno."""

    def refuse(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"cgpu.client.tree.os.{call}", refuse)


class PlainTree:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.path = base / "tree"
        self.inst_ctl = self.path / "inst_ctl"

    def client(self) -> Tree:
        return Tree(str(self.path))

    def build(self, *mib: int) -> Self:
        """Make the tree, with cards of these sizes."""
        self.path.mkdir()
        (self.path / "version").write_text("0.1.0\n")
        (self.path / "default_memsize").write_text("0\n")
        (self.path / "gpus").write_text("")
        self.inst_ctl.write_text("")
        for index, size in enumerate(mib):
            nodes = {
                "uuid": uuid(index),
                "name": "Tesla T4",
                "memtotal": size * MIB,
                "max_inst": 20,
                "policy": 1,
                "mig": 0,
                "natives": 0,
                "reserved": "",
            }
            self.directory(str(index), **nodes, free_weight=20)
        return self

    def directory(self, place_name: str, /, **nodes: object) -> None:
        """Make a directory with these entries; that of a card is in the tree's entry gpus too."""
        if "uuid" in nodes:
            facts = [f"{key}={nodes[key]}" for key in ("uuid", "memtotal", "max_inst") if key in nodes]
            with (self.path / "gpus").open("a") as gpus:
                gpus.write(" ".join((f"index={place_name}", *facts)) + "\n")
        (self.path / place_name).mkdir()
        self.write({f"{place_name}/{node}": value for node, value in nodes.items()})

    def write(self, entries: Mapping[str, object]) -> None:
        """Write entries, by their paths in the tree."""
        for name, value in entries.items():
            (self.path / name).parent.mkdir(exist_ok=True)
            (self.path / name).write_text(f"{value}\n")
