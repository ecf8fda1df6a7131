# SPDX-License-Identifier: Apache-2.0
"""Versions of the tables, made again from NVIDIA's sources by the command alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgpu.kmod.abi.add import HERE, TABLES, add_version
from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.tables import RANGES, fold, load, save, spread

CLONE = os.environ.get("CGPU_DRIVER_CLONE")
TAGS = ("590.48.01", "595.45.04")
NEEDED = "CGPU_DRIVER_CLONE: is not set; expected a clone of NVIDIA/open-gpu-kernel-modules"


def take_out(folder: Path) -> None:
    """Rewrite the tables of a folder as they would be without the versions."""
    tags = [tag for tag in load(folder / TABLES[0])["tags"] if tag not in TAGS]
    for name in TABLES:
        table = load(folder / name)
        for section, ranges in RANGES.items():
            for row in table.get(section, {}).values():
                row[ranges] = fold(spread(row[ranges], tags))
        save(folder / name, table | ({"tags": tags} if "tags" in table else {}))


@pytest.mark.archive
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(CLONE is None, reason=NEEDED)
def test_versions_come_again(tmp_path: Path) -> None:
    """Two versions that are taken out of the tables and added again leave the same bytes."""
    before = {path.name: path.read_bytes() for path in HERE.glob("*.json")}
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    take_out(tmp_path)
    clone = Clone(Path(str(CLONE)))
    for tag in TAGS:
        lines = list(add_version(clone, tag, tmp_path))
        assert lines[-1] == f"{tag}: added"
        assert not any("no verdict" in line or "a new call" in line for line in lines)
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content, name
