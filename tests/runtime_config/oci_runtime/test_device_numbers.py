# SPDX-License-Identifier: Apache-2.0
"""Nodes by number: made once, with the right mode, and none without permission."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cgpu.runtime_config.oci_runtime.device_numbers import are_published, publish

pytestmark = pytest.mark.root

# Linux, Documentation/admin-guide/devices.txt: /dev/null, /dev/zero.
NULL = {"path": "/dev/nvidiactl", "type": "c", "major": 1, "minor": 3}
ZERO = {"path": "/dev/nvidia0", "type": "c", "major": 1, "minor": 5}


def number(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    assert stat.S_ISCHR(found.st_mode)
    return os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode)


def test_nodes_are_made(tmp_path: Path) -> None:
    """One for each node of all edits; for root alone; a second time changes nothing."""
    edits: list[dict[str, object]] = [{"deviceNodes": [NULL]}, {"deviceNodes": [ZERO]}, {}]
    assert not are_published(edits, str(tmp_path))
    publish(edits, str(tmp_path))
    assert are_published(edits, str(tmp_path))
    before = {path.name: (number(path), path.lstat().st_ino) for path in tmp_path.iterdir()}
    assert {name: found for name, (found, _) in before.items()} == {
        "1:3": (1, 3, 0o600),
        "1:5": (1, 5, 0o600),
    }
    publish(edits, str(tmp_path))
    assert {path.name: (number(path), path.lstat().st_ino) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("target", ["/dev/null", "/dev/zero", "/nowhere", "/etc/passwd"])
def test_links(tmp_path: Path, target: str) -> None:
    """A right link, as nvidia-ctk makes, stays; one that a driver of before has left is replaced."""
    link = tmp_path / "1:3"
    link.symlink_to(target)
    publish([{"deviceNodes": [NULL]}], str(tmp_path))
    assert link.is_symlink() == (target == "/dev/null")
    assert link.is_symlink() or number(link) == (1, 3, 0o600)


@pytest.mark.parametrize("other", [{"type": "b"}, {"type": None}, {"major": "../1"}, {"major": None}])
def test_others_have_none(tmp_path: Path, other: dict[str, object]) -> None:
    """Other kinds, and nodes that are not given by number."""
    node = {name: value for name, value in {**NULL, **other}.items() if value is not None}
    publish([{"deviceNodes": [node]}], str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_machine_that_has_none(tmp_path: Path) -> None:
    """Without the folder no device has a number there, so a start waits for no node."""
    assert are_published([{"deviceNodes": [NULL]}], str(tmp_path / "absent"))
    assert not are_published([{"deviceNodes": [NULL]}], str(tmp_path))


def test_where_none_can_be_made(tmp_path: Path) -> None:
    """A container of a user, or a /dev without the folder, starts all the same."""
    publish([{"deviceNodes": [NULL]}], str(tmp_path / "absent"))
    (tmp_path / "1:3").mkdir()
    publish([{"deviceNodes": [NULL]}], str(tmp_path))
    assert (tmp_path / "1:3").is_dir()
