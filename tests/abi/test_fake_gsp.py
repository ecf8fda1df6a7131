# SPDX-License-Identifier: Apache-2.0
"""The table of what the fake GSP of tests/vm knows of the driver, by version."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cgpu.kmod.abi.clone import Clone
from tests.vm.harness.counts import count
from tests.vm.nvidia.hardware.collect import fold, measure, text, update
from tests.vm.nvidia.hardware.layouts import DATA, Json, Value, header, number, value_at

CLONE = "CGPU_DRIVER_CLONE"  # path of a clone of NVIDIA/open-gpu-kernel-modules
SOME = ("570.211.01", "580.142", "590.48.01", "595.45.04")
# Offsets that the fake GSP had before all versions' were collected, and with which both drivers ran.
KNOWN: dict[str, dict[str, Value]] = {
    "535.261.03": {
        "rpc_message_buffer": 216, "static_bytes": 2168, "static_engineCaps": 1700, "static_regions": 840,
        "static_computeBranding": 1616, "static_fb_length": 1752, "static_fbio_mask": 1760,
        "static_name": 1820, "static_bVbiosValid": 2104, "static_hInternalSubdevice": 2160,
        "control_params": 24, "intr_subtree": 2052, "intr_subtree_bytes": 2, "INTR_GR0": 82, "INTR_CE0": 15,
        "kgspBootstrapRiscvOSEarly": "kgspBootstrapRiscvOSEarly_TU102", "kgspBootstrap": None,
    },
    "550.163.01": {
        "rpc_message_buffer": 1104, "static_bytes": 2184, "static_engineCaps": 1716, "static_regions": 856,
        "static_computeBranding": None, "static_fb_length": 1768, "static_name": 1836,
        "static_bVbiosValid": 2120, "static_hInternalSubdevice": 2176, "control_params": 24,
        "intr_subtree": 2052, "intr_subtree_bytes": 2, "INTR_GR0": 84,
        "kgspBootstrapRiscvOSEarly": None, "kgspBootstrap": "kgspBootstrap_TU102",
    },
}  # fmt: skip


@pytest.fixture
def table() -> Json:
    read: Json = json.loads(DATA.read_text())
    return read


def values(table: Json, version: str) -> dict[str, Value]:
    return {name: value_at(row, version) for name, row in (table["rows"] | table["names"]).items()}


@pytest.mark.parametrize("version", KNOWN)
def test_values_that_a_driver_ran_with(table: Json, version: str) -> None:
    """Values of both drivers of Debian's archive are what they were."""
    found = values(table, version)
    assert {name: found[name] for name in KNOWN[version]} == KNOWN[version]


def test_rows(table: Json) -> None:
    """A row begins with the first public version, and changes with each of its entries."""
    for name, row in (table["rows"] | table["names"]).items():
        firsts = list(row["from"])
        assert firsts == sorted(firsts, key=number), name
        assert fold(row["from"]) == row["from"], name
        assert firsts[0] == "515.43.04", name
        assert set(row["from"].values()) != {None}, name
    assert DATA.read_text() == text(table)


def test_a_version_more(table: Json) -> None:
    """A version's values extend the rows that differ from the version before, and no others."""
    before = {name: dict(row["from"]) for name, row in table["rows"].items()}
    newest, added = table["newest"], "999.10.01"
    update(table, {added: values(table, newest) | {"control_params": 48}}, {newest, "595.44.02", added})
    changed = {name: row["from"] for name, row in table["rows"].items() if row["from"] != before[name]}
    assert {name: row[added] for name, row in changed.items() if added in row} == {"control_params": 48}
    assert table["newest"] == added


def test_header(table: Json) -> None:
    """Code has one name for a value, whether versions differ in it or not."""
    lines = header(table).splitlines()
    assert "#define GSP_header_bytes 0x20u" in lines
    assert "#define GSP_control_params (gsp_layout->control_params)" in lines
    assert {"#define GSP_DMA_SEC_OP_SHIFT 29u", "#define GSP_DMA_SEC_OP_MASK 0x7u"} <= set(lines)


@pytest.mark.archive
@pytest.mark.timeout(count(600, 7200))
def test_rows_are_what_headers_say(table: Json) -> None:
    """Each value is that of NVIDIA's public headers: of some versions, or of all in a full run."""
    if CLONE not in os.environ:
        pytest.skip(f"{CLONE} names no clone of NVIDIA/open-gpu-kernel-modules")
    clone = Clone(Path(os.environ[CLONE]))
    for tag in count(SOME, tuple(clone.tags())):
        assert measure(clone, tag, table) == values(table, tag), tag
