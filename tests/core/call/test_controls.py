# SPDX-License-Identifier: Apache-2.0
"""The table of judged controls: it has all of them, and its verdicts fit what the driver says of each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cgpu.kmod.abi import collect_controls, judge
from tests.core.call.verdicts import ABI, ROOT, Json, client_numbers, make_clone, table

HANDLERS = ROOT / "kmod" / "core" / "call" / "control.c"
# For root in some drivers, and for everybody in others: they only tell.
TELLS = {"NV2080_CTRL_CMD_ECC_GET_SRAM_UNIQUE_UNCORR_COUNTS", "NV2080_CTRL_CMD_NVLINK_IS_GPU_DEGRADED"}

FACTS, JUDGED = table("control_facts.json"), table("controls.json")


def verdict(number: int) -> str | None:
    """Return what the table says of a control, by itself or by its family."""
    for key, rows in ((number, "controls"), (number & ~0xFF, "families")):
        row = JUDGED[rows].get(f"{key:#x}")
        if row:
            return str(row["verdict"])
    return None


def test_verdicts_have_reasons_and_sources() -> None:
    """Each verdict is one of three and has a known reason; what no header has names its source."""
    for rows in ("controls", "families", "uvm"):
        for number, row in JUDGED[rows].items():
            assert row["verdict"] in {"pass", "judge", "refuse"}, number
            assert row["why"] in JUDGED["reasons"], number
            assert number in FACTS["controls"] or row["source"], number
    used = {row["why"] for rows in ("controls", "families", "uvm") for row in JUDGED[rows].values()}
    assert used == set(JUDGED["reasons"])


def test_names_fit() -> None:
    """A control has in every table the name that the newest headers have for it."""
    for number, fact in FACTS["controls"].items():
        name = JUDGED["controls"][number]["name"]
        assert name == fact["name"] or "header" not in fact, number
    for name, row in table("nvidia.json")["controls"].items():
        assert JUDGED["controls"][f"{row['cmd']:#x}"]["name"] == name


def test_judged_ones_have_a_handler() -> None:
    """The core's table has each control that is judged, sorted by number, and no other."""
    table_text = HANDLERS.read_text().split("controls[] = {")[1].split("\n};")[0]
    rows = re.findall(r"\b(NV\w+_CTRL_[A-Z]\w+)", re.sub(r", NV\w+_PARAMS", "", table_text))
    judged = {int(n, 16): row["name"] for n, row in JUDGED["controls"].items() if row["verdict"] == "judge"}
    assert rows == [judged[number] for number in sorted(judged)]


def test_nothing_passes_that_the_driver_keeps_from_processes() -> None:
    """What goes on unjudged is for every process, or no public table has it and it is named one by one."""
    unlisted = set()
    for number, fact in FACTS["controls"].items():
        row = JUDGED["controls"][number]
        if row["verdict"] != "pass" or row["why"] == "null":
            continue
        rights = fact.get("rights", [])
        if not rights:
            unlisted.add(row["name"])
        # Where a number had two meanings the driver itself keeps its own ones.
        elif row["name"] not in TELLS:
            assert "any" in rights, number
            assert set(rights) <= {"any", "internal", "kernel"}, number
    assert len(unlisted) < 20, unlisted


def test_privileged_families_are_refused() -> None:
    """Of the firmware's controls those for root are refused: bit 14 of the number says so."""
    for number, row in JUDGED["families"].items():
        if int(number, 16) & 0x4000:
            assert row["verdict"] == "refuse", number


def test_what_nvidias_programs_ask_is_not_refused() -> None:
    """libcuda, NVML and nvidia-smi meet no refusal: what they ask passes or is judged."""
    controls = client_numbers("controls")
    assert len(controls) > 50
    assert {hex(number) for number in controls if verdict(number) not in {"pass", "judge"}} == set()


def test_what_simulated_cards_answer_is_not_refused() -> None:
    """What CUDA and management clients need of a simulated card passes or is judged."""
    for name, row in table("card.json")["controls"].items():
        assert verdict(row["cmd"]) in {"pass", "judge"}, name


@pytest.mark.parametrize(
    ("fact", "wanted"),
    [
        ({"name": "NV2080_CTRL_CMD_A_GET_B", "rights": ["any"]}, ("pass", "read")),
        ({"name": "NV2080_CTRL_CMD_A_GET_B", "rights": ["any", "root"]}, ("refuse", "privileged")),
        ({"name": "NV2080_CTRL_CMD_A_GET_B", "rights": ["kernel"]}, ("refuse", "kernel")),
        ({"name": "NV2080_CTRL_CMD_INTERNAL_GET_B", "rights": ["any"]}, ("refuse", "internal")),
        ({"name": "NV2080_CTRL_CMD_A_GET_B"}, ("refuse", "private")),
        ({"name": "NV2080_CTRL_CMD_A_SET_B", "rights": ["any"]}, ("?", "?")),
        (
            {"name": "NV2080_CTRL_CMD_A_GET_B", "rights": ["any"], "inside": ["NvHandle hClient"]},
            ("judge", "clients"),
        ),
    ],
)
def test_rule(fact: Json, wanted: tuple[str, str]) -> None:
    """Without a person's look nothing passes that is not for everybody, or changes something."""
    assert judge.control_proposal(0x20809999, fact) == wanted


HEADER = """
#define NV2080_CTRL_CMD_A_GET_B (0x20800199U) /* finn: Evaluated from "(FINN_A_ID << 8) | X_MESSAGE_ID" */
#define NV2080_CTRL_A_LEGACY (0x81) /* finn: Evaluated from "(NV2080_CTRL_A | NVxxxx)" */
typedef struct NV2080_CTRL_A_GET_B_PARAMS {
    NvHandle hClient;
    NV_DECLARE_ALIGNED(NvP64 list, 8);
    NvU32    count;
} NV2080_CTRL_A_GET_B_PARAMS;
"""
METHOD = """
        /*flags=*/      {flags}u,
        /*accessRight=*/0x0u,
        /*methodId=*/   {number}u,
        /*paramSize=*/  sizeof(NV2080_CTRL_A_GET_B_PARAMS),
        /*func=*/       "{name}"
"""
FLAGS = """
#define RMCTRL_FLAGS_PRIVILEGED     0x000000004
#define RMCTRL_FLAGS_NON_PRIVILEGED {any}
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository with two tags, between which flags got other numbers and a control other rights."""
    tags = {}
    for tag, flags, any_flag in (("515.43.04", "0x10", "0x000000010"), ("595.45.04", "0x4", "0x000000008")):
        tags[tag] = {
            f"{collect_controls.HEADERS}/ctrl2080/a.h": HEADER,
            f"{collect_controls.TABLES}/g_a_nvoc.c": METHOD.format(
                flags=flags, number="0x20800199", name="one"
            )
            + METHOD.format(flags="0x0", number="0x2080019a", name="two"),
            collect_controls.FLAGS: FLAGS.format(any=any_flag),
        }
    return make_clone(tmp_path / "clone", tags)


def test_facts_are_collected_from_headers_and_tables(clone: Path, tmp_path: Path) -> None:
    """Name, rights over all tags, and what parameters name come from a clone of the driver's sources."""
    output = tmp_path / "facts.json"
    command: list[str | Path] = [sys.executable, "-I", ABI / "collect_controls.py", clone, output]
    subprocess.run(command, check=True, timeout=60)
    common = {"first": "515.43.04", "last": "595.45.04", "inside": ["NvHandle hClient", "NvP64 list"]}
    assert json.loads(output.read_text())["controls"] == {
        "0x20800199": {
            "name": "NV2080_CTRL_CMD_A_GET_B",
            "header": "ctrl2080/a.h",
            "rights": ["any", "root"],
            **common,
        },
        "0x2080019a": {"name": "two", "rights": ["kernel"], **common},
    }


def test_controls_that_change_something_run_one_at_a_time() -> None:
    """What exports, imports, schedules, binds or sets timeslices is in the order of its container."""
    rows = HANDLERS.read_text().split("controls[] = {")[1].split("};")[0]
    changing = set(re.findall(r"TRANSFERS\((\w+)\)", rows))
    changing |= set(re.findall(r"SCHEDULING\((\w+), core_begin_(?:schedule|bind|set_timeslice)\)", rows))
    assert len(changing) > 10
    header = (ROOT / "kmod" / "core" / "include" / "cgpu_changes.h").read_text()
    assert set(re.findall(r"case (\w+):", header)) == changing
