# SPDX-License-Identifier: Apache-2.0
"""The table of judged classes: it has all of them, and its verdicts fit what the driver says of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cgpu.kmod.abi import collect_classes, generate, judge
from tests.core.call.verdicts import ROOT, Json, client_numbers, make_clone, table

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


def test_names_fit() -> None:
    """A class has in every table the same name."""
    for number, row in ROWS.items():
        names = [name for name, entry in DATA["classes"].items() if f"{entry['id']:#x}" == number]
        if number in FACTS["classes"]:
            assert row["name"] == FACTS["classes"][number]["name"]
        assert row["name"] in names or not names, number


def test_nothing_passes_that_the_driver_keeps_from_processes() -> None:
    """What goes on unjudged is for every process; without public code it is an engine by name."""
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
    """libcuda, NVML and nvidia-smi meet no refusal: what they ask for passes or is judged."""
    classes = client_numbers("classes")
    assert len(classes) > 15
    assert {hex(one) for one in classes if ROWS[hex(one)]["verdict"] == "refuse"} == set()


def test_what_nvproxy_lets_through_is_not_refused() -> None:
    """Of what gVisor lets through nothing is refused but profiling, and memory over the fabric."""
    refused = {row["name"] for row in ROWS.values() if row["verdict"] == "refuse"}
    assert refused & set(JUDGED["nvproxy"]) == NOT_FOR_A_SLICE
    assert {row["name"] for row in ROWS.values() if row["why"] == "nvproxy"} <= set(JUDGED["nvproxy"])


@pytest.mark.parametrize(
    ("fact", "wanted"),
    [
        ({"name": "A_COMPUTE_A", "resource": "KernelGraphicsObject", "rights": ["any"]}, ("pass", "engine")),
        ({"name": "A_COMPUTE_A"}, ("pass", "engine_private")),
        ({"name": "A_COMPUTE_A", "resource": "Other", "rights": ["any"]}, ("?", "?")),
        ({"name": "A_CHANNEL_GPFIFO_A", "resource": "KernelChannel"}, ("judge", "context")),
        ({"name": "A", "resource": "B", "rights": ["any", "root"]}, ("refuse", "privileged")),
        ({"name": "A", "resource": "B", "rights": ["kernel"]}, ("refuse", "kernel")),
        ({"name": "A", "rights": ["any"], "inside": ["NvHandle hAppClient"]}, ("judge", "clients")),
        ({"name": "NVC999_DISPLAY", "rights": ["any"]}, ("refuse", "display")),
        ({"name": "A", "resource": "B", "rights": ["any"]}, ("?", "?")),
    ],
)
def test_rule(fact: Json, wanted: tuple[str, str]) -> None:
    """Without a person's look nothing passes but an engine for every process."""
    assert judge.class_proposal(0, fact) == wanted


HEADER = """
#define A_OBJECT (0x{number}U) /* finn: Evaluated from "A_PARAMS_MESSAGE_ID" */
#define A_PARAMS_MESSAGE_ID (0x{number}U)
#define A_METHOD 0x00000100
typedef struct A_PARAMS {{
    NvHandle hAppClient;
    NvU32    count;
}} A_PARAMS;
"""
ENTRY = """
RS_ENTRY(
    /* External Class         */ {name},
    /* Internal Class         */ Object,
    /* Multi-Instance         */ NV_TRUE,
    /* Parents                */ RS_LIST(classId(Device), classId(Subdevice)),
    /* Alloc Param Info       */ RS_REQUIRED(A_PARAMS),
    /* Resource Free Priority */ RS_FREE_PRIORITY_DEFAULT,
    /* Flags                  */ RS_FLAGS_ALLOC_{rights} | RS_FLAGS_ACQUIRE_GPUS_LOCK_ON_ALLOC |
                                 RS_FLAGS_ACQUIRE_GPU_GROUP_LOCK_ON_FREE,
    /* Required Access Rights */ RS_ACCESS_NONE
)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository with two tags: a class that only the first has, and one that gets other rights."""
    old = "#define A_OLD (0x000000b0)\n"
    tags = {}
    for tag, rights, listed in (("515.43.04", "NON_PRIVILEGED", old), ("595.45.04", "PRIVILEGED", "")):
        tags[tag] = {
            f"{collect_classes.HEADERS}/cla0a1.h": HEADER.format(number="0000a0a1"),
            collect_classes.LIST: listed + "#define A_EVENT (0x00000078)\n",
            collect_classes.RESOURCES: ENTRY.format(name="A_OBJECT", rights=rights)
            + ENTRY.format(name="A_EVENT", rights="KERNEL_PRIVILEGED"),
        }
    return make_clone(tmp_path / "clone", tags)


def test_facts_are_collected_from_headers_and_lists(clone: Path, tmp_path: Path) -> None:
    """Name, number, rights over all tags, and what parameters name come from a clone of the driver."""
    output = tmp_path / "facts.json"
    command: list[str | Path] = [sys.executable, "-m", "cgpu.kmod.abi.collect_classes", clone, output]
    subprocess.run(command, check=True, timeout=60, cwd=ROOT)
    found = json.loads(output.read_text())
    made = {
        "resource": "Object",
        "parents": ["Device", "Subdevice"],
        "params": "A_PARAMS",
        "inside": ["NvHandle hAppClient"],
    }
    span = {"first": "515.43.04", "last": "595.45.04"}
    assert found["classes"] == {
        "0x78": {"name": "A_EVENT", **span, **made, "rights": ["kernel"]},
        "0xb0": {"name": "A_OLD", "first": "515.43.04", "last": "515.43.04"},
        "0xa0a1": {"name": "A_OBJECT", **span, **made, "header": "class/cla0a1.h", "rights": ["any", "root"]},
    }


def test_judges_have_a_function() -> None:
    """Each judge that the generator knows has a row in the core's table."""
    rows = (ROOT / "kmod" / "core" / "call" / "alloc.c").read_text().split("judges[])")[1].split("};")[0]
    for name in generate.JUDGES[1:]:
        assert f"[NV_CLASS_BY_{name.upper()}] = " in rows, name
