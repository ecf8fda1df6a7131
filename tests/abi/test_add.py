# SPDX-License-Identifier: Apache-2.0
"""cgpu abi add: a version's facts become data, from a clone alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.abi.add import add_version
from cgpu.kmod.abi.extract import COMMON
from tests.abi.conftest import CALLS, CONTROLS, FILES, NODES, OPEN, make_clone

GROWN = "#pragma once\ntypedef struct { NvU32 hRoot; NvU64 more; NvU32 status; } FREE_PARAMETERS;\n"


def table(tables: Path, name: str = "nvidia.json") -> Any:
    return json.loads((tables / name).read_text())


def layouts(tables: Path) -> Any:
    return table(tables)["structs"]["FREE_PARAMETERS"]["layouts"]


def test_a_version_without_changes_extends_what_is_there(tmp_path: Path, tables: Path) -> None:
    """Nothing but the list of versions grows."""
    clone = make_clone(tmp_path / "clone", {"1.10.01": {}, "1.10.02": {}})
    before = layouts(tables)
    assert list(add_version(clone, "1.10.02", tables)) == ["1.10.02: added"]
    assert table(tables)["tags"] == ["1.10.01", "1.10.02"]
    assert layouts(tables) == before


def test_a_struct_that_grew_splits_its_layout(tmp_path: Path, tables: Path) -> None:
    """Also where it is smaller again later: a layout is a version's, whatever order versions are added in."""
    clone = make_clone(
        tmp_path / "clone", {"1.10.01": {}, "1.20.01": {COMMON: GROWN}, "1.30.01": {COMMON: FILES[COMMON]}}
    )
    list(add_version(clone, "1.30.01", tables))
    changed, added = add_version(clone, "1.20.01", tables)
    assert changed == "FREE_PARAMETERS: 8 bytes with 2 fields before, 24 bytes with 2 fields in 1.20.01"
    assert added == "1.20.01: added"
    assert [(one["first"], one["size"]) for one in layouts(tables)] == [
        ("1.10.01", 8),
        ("1.20.01", 24),
        ("1.30.01", 8),
    ]
    assert layouts(tables)[1]["fields"] == {"hRoot": [0, 4], "status": [16, 4]}


def test_a_function_with_another_prototype_is_named(tmp_path: Path, tables: Path) -> None:
    """So is one that is gone: the module that probes it has to be looked at."""
    more = FILES[NODES].replace("int flags", "int flags, int mode")
    clone = make_clone(tmp_path / "clone", {"1.10.01": {}, "1.20.01": {NODES: more}, "1.30.01": {NODES: ""}})
    longer = OPEN.replace("int flags", "int flags, int mode")
    assert list(add_version(clone, "1.20.01", tables)) == [
        f"nv_open: {OPEN} before, {longer} in 1.20.01",
        "1.20.01: added",
    ]
    gone, _ = add_version(clone, "1.30.01", tables)
    assert gone == f"nv_open: {longer} before, none in 1.30.01"
    assert table(tables)["functions"]["nv_open"]["prototypes"] == [
        {"first": "1.10.01", "prototype": OPEN},
        {"first": "1.20.01", "last": "1.20.01", "prototype": longer},
    ]


def test_what_a_person_has_to_judge_is_named(tmp_path: Path, tables: Path) -> None:
    """Calls and controls that the version before lacks."""
    more = '#define NV2080_CTRL_CMD_GET_HEAT (0x20800102) /* finn: Evaluated from "(X << 8)" */\n'
    changes = {CALLS: FILES[CALLS] + "#define NV_ESC_NEW 0x77\n", CONTROLS: FILES[CONTROLS] + more}
    clone = make_clone(tmp_path / "clone", {"1.10.01": {}, "1.10.02": changes})
    assert list(add_version(clone, "1.10.02", tables)) == [
        "NV_ESC_NEW: a new call; refused until somebody has judged it",
        "0x20800102 NV2080_CTRL_CMD_GET_HEAT: no verdict in controls.json; proposed: refuse, private",
        "1.10.02: added",
    ]


@pytest.mark.parametrize(
    ("tag", "changes", "says"),
    [
        ("1.10.01", {}, "is in the tables"),
        (
            "1.10.02",
            {CALLS: "#define NV_ESC_RM_FREE 0x2a\n"},
            "NV_ESC_RM_FREE: 41 in the table, 42 in the headers",
        ),
        (
            "1.10.02",
            {CONTROLS: "#define NV2080_CTRL_FLAGS_FAST 4:1\n"},
            "3:1 in the table, 4:1 in the headers",
        ),
    ],
)
def test_refused_versions_change_nothing(
    tmp_path: Path, tables: Path, tag: str, changes: dict[str, str], says: str
) -> None:
    """A number has one value for all versions: another one is no row of data."""
    clone = make_clone(tmp_path / "clone", {"1.10.01": {}, "1.10.02": changes})
    before = {path.name: path.read_bytes() for path in tables.iterdir()}
    with pytest.raises(CgpuError, match=says):
        list(add_version(clone, tag, tables))
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == before
