# SPDX-License-Identifier: Apache-2.0
"""The table of judged controls: it has all of them, and its verdicts fit what the driver says of each."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cgpu.kmod.abi import collect_controls, judge
from tests.core.call.driver_clone import make_clone

ROOT = Path(__file__).resolve().parents[3]
ABI = ROOT / "kmod" / "abi"
TRACES = sorted((ROOT / "tests" / "trace" / "real_library").glob("*.gz"))
HANDLERS = ROOT / "kmod" / "core" / "call" / "control.c"
# For root in some drivers, and for everybody in others: they only tell.
TELLS = {"NV2080_CTRL_CMD_ECC_GET_SRAM_UNIQUE_UNCORR_COUNTS", "NV2080_CTRL_CMD_NVLINK_IS_GPU_DEGRADED"}

Json = dict[str, Any]


def table(name: str) -> Json:
    found: Json = json.loads((ABI / name).read_text())
    return found


FACTS, JUDGED = table("control_facts.json"), table("controls.json")


def verdict(number: int) -> str | None:
    """Return what the table says of a control, by itself or by its family."""
    for key, rows in ((number, "controls"), (number & ~0xFF, "families")):
        row = JUDGED[rows].get(f"{key:#x}")
        if row:
            return str(row["verdict"])
    return None


def test_every_known_control_has_a_verdict() -> None:
    """No control of the newest header set, or of one before it, is without a verdict."""
    assert judge.missing("controls", FACTS["controls"], JUDGED["controls"]) == {}
    assert FACTS["last"] == "595.45.04"


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
    rows = re.findall(r"\b(NV\w+_CMD_[A-Z]\w+)", re.sub(r", NV\w+_PARAMS", "", table_text))
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


def test_parameters_that_name_clients_are_judged() -> None:
    """No control goes on unjudged whose parameters name a client of RM."""
    for number, fact in FACTS["controls"].items():
        if any("client" in field.lower() for field in fact.get("inside", [])):
            assert JUDGED["controls"][number]["verdict"] != "pass", number


def test_privileged_families_are_refused() -> None:
    """Of the firmware's controls those for root are refused: bit 14 of the number says so."""
    for number, row in JUDGED["families"].items():
        if int(number, 16) & 0x4000:
            assert row["verdict"] == "refuse", number


def asked() -> set[int]:
    """Return the controls that NVIDIA's programs were recorded with."""
    records = [
        json.loads(line) for path in TRACES for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    return {one["in"]["cmd"] for one in records if one.get("call") == "NV_ESC_RM_CONTROL"}


def test_what_nvidias_programs_ask_is_not_refused() -> None:
    """nvidia-smi and NVML meet no refusal: what they ask passes or is judged."""
    recorded = asked()
    assert len(recorded) > 50
    assert {hex(number) for number in recorded if verdict(number) not in {"pass", "judge"}} == set()


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
    assert json.loads(output.read_text())["controls"] == {
        "0x20800199": {
            "name": "NV2080_CTRL_CMD_A_GET_B",
            "first": "515.43.04",
            "last": "595.45.04",
            "header": "ctrl2080/a.h",
            "rights": ["any", "root"],
            "inside": ["NvHandle hClient", "NvP64 list"],
        },
        "0x2080019a": {
            "name": "two",
            "first": "515.43.04",
            "last": "595.45.04",
            "rights": ["kernel"],
            "inside": ["NvHandle hClient", "NvP64 list"],
        },
    }


def test_command_names_what_has_no_verdict(tmp_path: Path) -> None:
    """The command prints a line for each control without a verdict, and says so by its exit status."""
    for file in ("judge.py", "control_facts.json", "controls.json"):
        (tmp_path / file).write_text((ABI / file).read_text())
    judged = json.loads((ABI / "controls.json").read_text())
    del judged["controls"]["0x20800110"]
    (tmp_path / "controls.json").write_text(json.dumps(judged))
    command: list[str | Path] = [sys.executable, "-I", tmp_path / "judge.py", "controls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    line = (
        '  "0x20800110": {"name": "NV2080_CTRL_CMD_GPU_GET_NAME_STRING", "verdict": "pass", "why": "read"},\n'
    )
    assert (done.returncode, done.stdout) == (1, line)


def test_generator_refuses_another_verdict(tmp_path: Path) -> None:
    """A verdict that is none of the three does not get into the C table."""
    for file in ("generate.py", "fields.h", "nvidia.json", "controls.json", "classes.json"):
        (tmp_path / file).write_text((ABI / file).read_text())
    good = (tmp_path / "controls.json").read_text()
    (tmp_path / "controls.json").write_text(good.replace('"verdict": "pass"', '"verdict": "unknown"', 1))
    command: list[str | Path] = [sys.executable, "-I", tmp_path / "generate.py", tmp_path / "gen"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "expected one of" in done.stderr


def test_controls_that_change_something_run_one_at_a_time() -> None:
    """What exports, imports, schedules or binds is among the calls that run one after another."""
    rows = HANDLERS.read_text().split("controls[] = {")[1].split("};")[0]
    changing = set(re.findall(r"TRANSFERS\((\w+)\)", rows))
    changing |= set(re.findall(r"SCHEDULING\((\w+), core_begin_(?:schedule|bind)\)", rows))
    assert len(changing) > 10
    header = (ROOT / "kmod" / "core" / "include" / "cgpu_changes.h").read_text()
    assert set(re.findall(r"case (\w+):", header)) == changing
