# SPDX-License-Identifier: Apache-2.0
"""The table of judged classes: it has all of them, and its verdicts fit what the driver says of each."""

from __future__ import annotations

from cgpu.kmod.abi import generate
from tests.core.call.verdicts import client_numbers, table

# gVisor's nvproxy lets these through. Refused here: profiling, memory over the fabric, and maps made later.
NOT_FOR_A_SLICE = {
    "GF100_PROFILER",
    "MAXWELL_PROFILER_DEVICE",
    "NV_COUNTER_COLLECTION_UNIT",
    "NV_IMEX_SESSION",
    "NV_MEMORY_EXPORT",
    "NV_MEMORY_FABRIC",
    "NV_MEMORY_FABRIC_IMPORTED_REF",
    "NV_MEMORY_MAPPER",
    "NV_MEMORY_MULTICAST_FABRIC",
}

FACTS, JUDGED, DATA = table("class_facts.json"), table("classes.json"), table("nvidia.json")
ROWS = JUDGED["classes"]


def test_verdicts_have_reasons() -> None:
    """Each verdict is one of three and has a known reason, each reason is used, and each status is known."""
    for number, row in ROWS.items():
        assert row["verdict"] in {"pass", "judge", "refuse"}, number
        assert row["why"] in JUDGED["reasons"], number
        assert row.get("status", "NV_OK") in DATA["statuses"], number
        assert ("by" in row) == (row["verdict"] == "judge"), number
    assert {row["why"] for row in ROWS.values()} == set(JUDGED["reasons"])
    assert {row["by"] for row in ROWS.values() if "by" in row} == set(generate.JUDGES[1:])


def test_nothing_passes_that_the_driver_keeps_from_processes() -> None:
    """An unjudged class is for every process; without public code it is an engine by name."""
    for number, row in ROWS.items():
        fact = FACTS["classes"].get(number, {})
        if row["verdict"] == "pass":
            assert fact.get("rights") == ["any"] or row["why"] == "engine_private", number
            assert "resource" in fact or row["why"] == "engine_private", number


def test_what_carries_memory_on_is_refused() -> None:
    """Classes that carry memory of the card on uncharged are refused."""
    for entry in DATA["classes"].values():
        kind = entry.get("memory", "none")
        assert kind not in {"alias", "export", "fabric"} or ROWS[f"{entry['id']:#x}"]["verdict"] == "refuse"


def test_what_takes_memory_is_judged_as_that() -> None:
    """Memory of the card, groups and channels have that mark in nvidia.json, and the judge of this name."""
    marks: dict[str, str] = {}
    for entry in DATA["classes"].values():
        marks.setdefault(f"{entry['id']:#x}", entry.get("memory", "none"))
    for number, row in ROWS.items():
        mark, by = marks.get(number, "none"), row.get("by")
        assert mark == by or not {mark, by} & {"vidmem", "group", "channel"}, number


def test_what_nvidias_programs_ask_for_is_not_refused() -> None:
    """libcuda, NVML and nvidia-smi meet no refusal: their classes pass or are judged."""
    classes = client_numbers("classes")
    assert len(classes) > 15
    assert {hex(one) for one in classes if ROWS[hex(one)]["verdict"] == "refuse"} == set()


def test_what_nvproxy_lets_through_is_not_refused() -> None:
    """Classes that gVisor lets through are not refused, but profiling, and memory over the fabric."""
    refused = {row["name"] for row in ROWS.values() if row["verdict"] == "refuse"}
    assert refused & set(JUDGED["nvproxy"]) == NOT_FOR_A_SLICE
    assert {row["name"] for row in ROWS.values() if row["why"] == "nvproxy"} <= set(JUDGED["nvproxy"])
