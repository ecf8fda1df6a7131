# SPDX-License-Identifier: Apache-2.0
"""Entries that stay open are read anew each time, opened anew when they fail, and closed in the end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cgpu.client import open_entries
from cgpu.client.open_entries import OpenEntries
from cgpu.client.tree import EngineDownError, Tree, read_text
from cgpu.errors import CgpuError
from tests.exporter.trees import FakeTree


@pytest.fixture
def fake(tmp_path: Path) -> FakeTree:
    return FakeTree(tmp_path / "tree")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that trees have opened since."""
    found: list[int] = []

    def kept(self: Tree, *parts: str) -> int:
        found.append(os.open("/".join((self.path, *parts)), os.O_RDONLY))
        return found[-1]

    monkeypatch.setattr(Tree, "open", kept)
    return found


def are_open(fds: list[int]) -> list[bool]:
    return [Path(f"/proc/self/fd/{fd}").exists() for fd in fds]


def test_one_open_serves_all_reads(fake: FakeTree, opened: list[int]) -> None:
    """Each read has the present text; no entry stays open without readers."""
    entries, tree = OpenEntries(), Tree(str(fake.path))
    for version in ("0.1.0", "0.2.0-long", "0.3"):
        (fake.path / "version").write_text(f"{version}\n")
        assert entries.read(tree, "version") == version
    assert are_open(opened) == [True]
    del entries
    assert are_open(opened) == [False]


def test_another_engine_is_opened_anew(
    fake: FakeTree, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When one entry fails, as all do with the engine's process, none is kept."""
    entries, tree = OpenEntries(), Tree(str(fake.path))
    assert entries.read(tree, "version") == "0.1.0"
    assert entries.read(tree, "engine") == "cgpud 0.1.0"
    first, before = opened[0], entries.generation

    def fails(fd: int) -> str:
        if fd == first and len(opened) == 2:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return read_text(fd)

    monkeypatch.setattr(open_entries, "read_text", fails)
    assert entries.read(tree, "version") == "0.1.0"
    assert len(opened) == 3
    assert not Path(f"/proc/self/fd/{opened[1]}").exists()
    assert entries.generation == before + 1


def test_another_path_closes_the_first(fake: FakeTree, tmp_path: Path, opened: list[int]) -> None:
    """A node has one engine at a time."""
    entries, other = OpenEntries(), FakeTree(tmp_path / "other")
    (other.path / "version").write_text("9\n")
    assert entries.read(Tree(str(fake.path)), "version") == "0.1.0"
    assert entries.read(Tree(str(fake.path)), "engine") == "cgpud 0.1.0"
    assert entries.read(Tree(str(other.path)), "version") == "9"
    assert sum(are_open(list(set(opened)))) == 1


def test_errors_are_those_of_the_tree(fake: FakeTree) -> None:
    """An entry that cannot be read raises the tree's words, and is not kept."""
    entries, tree = OpenEntries(), Tree(str(fake.path))
    (fake.path / "version").write_text("x" * (1 << 17))
    with pytest.raises(CgpuError, match=r"version: cannot be read: File too large$"):
        entries.read(tree, "version")
    with pytest.raises(EngineDownError):
        entries.read(Tree(f"{fake.path}/none"), "version")
