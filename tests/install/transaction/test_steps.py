# SPDX-License-Identifier: Apache-2.0
"""Steps by themselves: files with their links and owners, folders, commands, settings in between."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.transaction import journal
from cgpu.install.transaction.runner import Done
from cgpu.install.transaction.steps import runtime as runtime_step
from cgpu.install.transaction.steps.file_changes import FilesPlan
from cgpu.install.transaction.steps.runtime import RuntimePlan
from cgpu.install.transaction.steps.system import Command, Commands
from cgpu.node_files import FileEdit
from cgpu.replace import temporary
from cgpu.runtime_config.engines.engine import Desired
from tests.install import faults
from tests.install.engines import BETWEEN, ENGINES, WHALE
from tests.install.support import OLD, System
from tests.install.transaction.conftest import Node

DESIRED = Desired(Path("/opt/cgpu-container-runtime"))


def test_a_link_stays_a_link(node: Node, restored: Path) -> None:
    """A settings file that is a link is edited where it points to, and the link stays."""
    text = (node.root / "etc/seal.conf").read_bytes()
    node.do(node.edit("etc/seal.conf", text, b"edited=yes\n"))
    assert (node.root / "etc/seal.conf").is_symlink()
    assert (node.root / "etc/storage/seal.real").read_bytes() == b"edited=yes\n"
    node.undo()


def test_a_link_out_of_the_root_is_refused(node: Node, tmp_path: Path) -> None:
    """Below a root other than / nothing outside of it is edited."""
    outside = tmp_path / "outside"
    outside.write_text("a=b\n")
    (node.root / "etc/out").symlink_to(outside)
    with pytest.raises(CgpuError, match="leads out of"):
        node.do(node.edit("etc/out", b"a=b\n", b"c=d\n"))
    assert outside.read_text() == "a=b\n"


def test_owner_and_the_like_are_kept(node: Node) -> None:
    """Owner, group, mode and attributes stay with the edit, and the time comes back with the content."""
    path = node.root / WHALE.path
    status, names = path.stat(), os.listxattr(path)
    node.do(node.edit(WHALE.path, path.read_bytes(), b"edited=yes\n"))
    edited = path.stat()
    assert (edited.st_uid, edited.st_gid, edited.st_mode) == (status.st_uid, status.st_gid, status.st_mode)
    assert os.listxattr(path) == names
    assert edited.st_mtime_ns > OLD
    node.undo()
    assert path.stat().st_mtime_ns == OLD


def test_another_mode_since_stays(node: Node) -> None:
    """Who has changed the mode of an edited file since finds it changed after the restoration."""
    path = node.root / WHALE.path
    text = path.read_bytes()
    node.do(node.edit(WHALE.path, text, b"edited=yes\n"))
    path.chmod(0o644)
    node.undo()
    assert path.read_bytes() == text
    assert path.stat().st_mode & 0o777 == 0o644


def test_folders_that_are_in_use_stay(node: Node) -> None:
    """A folder that was made goes when it is empty; with a file of somebody else it stays, and is named."""
    node.do(node.edit("etc/new/deep/ours", None, b"x=y\n", 0o600))
    assert (node.root / "etc/new/deep/ours").stat().st_mode & 0o777 == 0o600
    (node.root / "etc/new/theirs").write_text("mine")
    node.undo()
    assert not (node.root / "etc/new/deep").exists()
    assert (node.root / "etc/new/theirs").read_text() == "mine"
    assert node.notes == ["/etc/new: is not empty; it stays"]


def test_what_was_edited_or_removed_since_stays_so(node: Node) -> None:
    """A file of ours that was edited since is left with a word; settings that are gone stay gone."""
    node.do(node.edit("etc/ours", None, b"x=y\n"))
    (node.root / "etc/ours").write_text("x=z\n")
    path = node.root / WHALE.path
    node.do(node.edit(WHALE.path, path.read_bytes(), b"edited=yes\n"))
    path.unlink()
    node.undo()
    assert not path.exists()
    assert (node.root / "etc/ours").read_text() == "x=z\n"
    assert node.notes == [
        "/etc/ours: was edited since cgpu install wrote it; it stays (rm /etc/ours removes it)"
    ]


def test_a_removed_file_comes_back(node: Node, restored: Path) -> None:
    """A step that removes a file brings it back with owner, mode and time."""
    node.do(node.edit(WHALE.path, (node.root / WHALE.path).read_bytes(), None))
    assert not (node.root / WHALE.path).exists()
    node.undo()


def test_an_edit_in_the_meantime_is_seen(node: Node) -> None:
    """What was planned for another content is not written over somebody's edit."""
    plan = node.edit(WHALE.path, (node.root / WHALE.path).read_bytes(), b"edited=yes\n")
    (node.root / WHALE.path).write_text("newer=yes\n")
    with pytest.raises(CgpuError, match="was changed meanwhile"):
        node.do(plan)
    assert (node.root / WHALE.path).read_text() == "newer=yes\n"
    assert journal.load(node.root) is None


def test_a_second_transaction_fails_alone(node: Node) -> None:
    """A failure takes back the steps of its own transaction, and none of an earlier one."""
    node.do(node.edit("etc/first", None, b"1\n"))
    with pytest.raises(CgpuError):
        node.do(
            node.edit("etc/second", None, b"2\n"),
            Commands("fails", do=(Command(("/bin/false", "disable", "x")),)),
        )
    assert (node.root / "etc/first").exists()
    assert not (node.root / "etc/second").exists()
    node.undo()
    assert not (node.root / "etc/first").exists()


def test_a_damaged_record_is_refused(node: Node) -> None:
    """A record that cannot be understood stops everything, and the line says where the old contents are."""
    node.do(node.edit(WHALE.path, (node.root / WHALE.path).read_bytes(), b"edited=yes\n"))
    (node.root / "var/lib/cgpu/install/journal.json").write_text('{"format": 2}')
    with pytest.raises(CgpuError, match=r"is not a record of this version.*install/before: put them back"):
        journal.load(node.root)


def test_an_engine_of_another_version(node: Node) -> None:
    """A record of settings that this version cannot edit is named in one line."""
    plan = FilesPlan("edits", (FileEdit(node.root / "etc/first", None, b"1\n"),), "later")
    node.do(plan)
    (node.root / "etc/first").write_text("2\n")
    with pytest.raises(CgpuError, match="engine later: is in the record, and this version"):
        node.undo()


def test_a_damaged_content_is_not_put_back(node: Node) -> None:
    """A kept content that has changed on the disk is named, and not written anywhere."""
    node.do(node.edit(WHALE.path, (node.root / WHALE.path).read_bytes(), b"edited=yes\n"))
    (kept,) = (node.root / "var/lib/cgpu/install/before").iterdir()
    kept.write_bytes(b"rotten")
    with pytest.raises(CgpuError, match="is damaged"):
        node.undo()
    assert (node.root / WHALE.path).read_bytes() == b"edited=yes\n"


def runtime(node: Node) -> RuntimePlan:
    """Return the plan that tells an engine which has to let go of the runtime."""
    files = FilesPlan("whale", tuple(WHALE.plan_add(node.root, DESIRED)), "whale")
    return RuntimePlan(files, WHALE.command)


def test_an_engine_lets_go_first(node: Node) -> None:
    """Before the last settings come back the engine has read those in between; then it is asked no more."""
    seen: list[str] = []

    class Watching(System):
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            seen.append((self.root / WHALE.path).read_text())
            return super().run(words)

    node.do(runtime(node))
    node.system = Watching(node.root)
    before = (node.root / WHALE.path).read_text()
    node.undo()
    assert seen == [before.replace(f"cgpu={DESIRED.runtime}", BETWEEN)]
    assert (node.root / WHALE.path).read_text() == "debug=true\nlog-level=warn\n"


def test_killed_in_between(node: Node) -> None:
    """A kill while the settings in between are there, after a foreign edit: what was planned still comes."""
    node.do(runtime(node))
    with (node.root / WHALE.path).open("a") as file:
        file.write("foreign=1\n")
    at = 0
    while BETWEEN not in (node.root / WHALE.path).read_text():
        assert faults.in_child(node.undo, at)
        at += 1
        assert at < 100
    node.undo()
    assert (node.root / WHALE.path).read_text() == "debug=true\nlog-level=warn\nforeign=1\n"
    assert not temporary(node.root / WHALE.path).exists()


def test_an_engine_that_takes_its_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last settings wait until the engine says that it has let go; one that never does is named."""
    answers = ['{"cgpu": 1, "runc": 1} "cgpu"', '{"cgpu": 1, "runc": 1} "runc"', '{"runc": 1} "runc"']
    asked: list[str] = []

    class Slow(System):
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            if words[0] != "ask":
                return super().run(words)
            asked.append((self.root / WHALE.path).read_text())
            return Done(0, answers[min(len(asked), len(answers)) - 1])

    monkeypatch.setitem(ENGINES, "whale", replace(WHALE, asks=("ask",)))
    monkeypatch.setattr(runtime_step, "POLL_S", 0)
    node.system = Slow(node.root)
    node.do(runtime(node))
    node.undo()
    assert len(asked) == 3
    assert all(BETWEEN in text for text in asked)
    assert node.notes == []

    answers[:] = answers[:1]
    monkeypatch.setattr(runtime_step, "DEADLINE_S", 0)
    node.do(runtime(node))
    node.undo()
    assert node.notes == ["To do: restart whale, which still has the runtime cgpu"]
    assert (node.root / WHALE.path).read_text() == "debug=true\nlog-level=warn\n"


def test_an_engine_that_does_not_come_up(node: Node) -> None:
    """On the way back a reload that fails is told, and the settings come back all the same."""
    node.do(runtime(node))
    node.system.refuses = "whale"
    node.undo()
    assert "To do: reload whale, which still has its old settings" in node.notes[0]
    assert (node.root / WHALE.path).read_text() == "debug=true\nlog-level=warn\n"


def test_an_interrupt_takes_back(node: Node, restored: Path) -> None:
    """Who presses Ctrl-C while a command runs finds what was done taken back."""

    class Interrupted(System):
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            raise KeyboardInterrupt

    node.system = Interrupted(node.root)
    with pytest.raises(KeyboardInterrupt):
        node.do(node.edit("etc/first", None, b"1\n"), Commands("waits", do=(Command(("systemctl", "x")),)))
