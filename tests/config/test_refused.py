# SPDX-License-Identifier: Apache-2.0
"""Why a configuration was refused, as the runtime and the hook find it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgpu.config import refused

WHY = "config.yaml:3: policy 9 does not exist"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("policy: 9\n")
    return path


def test_noted_and_forgotten(config: Path, tmp_path: Path) -> None:
    """A note is readable for root alone, says why, and can be forgotten twice."""
    path = tmp_path / "run" / "refused.json"
    assert refused.why(str(path)) == ""
    refused.note(str(config), WHY, str(path))
    assert refused.why(str(path)) == WHY
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    refused.forget(str(path))
    refused.forget(str(path))
    assert refused.why(str(path)) == ""


@pytest.mark.parametrize("change", ["written", "removed", "replaced"])
def test_a_file_that_has_changed(config: Path, tmp_path: Path, change: str) -> None:
    """A note about another content is not shown for this one."""
    path = str(tmp_path / "refused.json")
    refused.note(str(config), WHY, path)
    if change != "written":
        config.rename(tmp_path / "old")
    if change != "removed":
        config.write_text("policy: 2\n# right\n")
    assert refused.why(path) == ""


def test_without_a_file_nothing_is_noted(tmp_path: Path) -> None:
    """A configuration that is not there leaves no note."""
    refused.note(str(tmp_path / "none"), WHY, str(tmp_path / "run" / "refused.json"))
    assert not (tmp_path / "run").exists()


DAMAGED = [b"", b"[]", b"null", b"\xff", b"[" * 10000, b" " * (refused.MAX_BYTES + 1)]
DAMAGED += [b'{"file": 1, "state": [], "why": "x"}', b'{"file": "/", "state": [1], "why": "x"}']
DAMAGED += [b'{"file": "a\\u0000b", "state": [], "why": "x"}']


@pytest.mark.parametrize("raw", DAMAGED)
def test_a_damaged_note(tmp_path: Path, raw: bytes) -> None:
    """A note that cannot be read is none."""
    path = tmp_path / "refused.json"
    path.write_bytes(raw)
    assert refused.why(str(path)) == ""


def test_one_line(config: Path, tmp_path: Path) -> None:
    """A note is shown as one printable line; a pipe in the note's place blocks no reader."""
    path = str(tmp_path / "refused.json")
    refused.note(str(config), "a\nb\x1b", path)
    assert refused.why(path) == "a\\nb\\x1b"
    os.unlink(path)
    os.mkfifo(path)
    assert refused.why(path) == ""
