# SPDX-License-Identifier: Apache-2.0
"""The table of judged controls: it has all of them, and its verdicts fit what the driver says of each."""

from __future__ import annotations

import re

from tests.core.call.verdicts import ROOT, client_numbers, table

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
    """Each verdict is one of three and has a known reason; a number that no header has names its source."""
    for rows in ("controls", "families", "uvm"):
        for number, row in JUDGED[rows].items():
            assert row["verdict"] in {"pass", "judge", "refuse"}, number
            assert row["why"] in JUDGED["reasons"], number
            assert number in FACTS["controls"] or row["source"], number
    used = {row["why"] for rows in ("controls", "families", "uvm") for row in JUDGED[rows].values()}
    assert used == set(JUDGED["reasons"])


def test_judged_ones_have_a_handler() -> None:
    """The core's table has each control that is judged, sorted by number, and no other."""
    table_text = HANDLERS.read_text().split("controls[] = {")[1].split("\n};")[0]
    rows = re.findall(r"^\t(?:\w+\(|\{ \.command = )(\w+)", table_text, re.MULTILINE)
    judged = {int(n, 16): row["name"] for n, row in JUDGED["controls"].items() if row["verdict"] == "judge"}
    assert rows == [judged[number] for number in sorted(judged)]


def test_nothing_passes_that_the_driver_keeps_from_processes() -> None:
    """An unjudged control is for every process, or no public table has it and it is named one by one."""
    unlisted = set()
    for number, fact in FACTS["controls"].items():
        row = JUDGED["controls"][number]
        if row["verdict"] != "pass" or row["why"] == "null":
            continue
        rights = fact.get("rights", [])
        if not rights:
            unlisted.add(row["name"])
        # The driver itself keeps its own meanings of a number that has two.
        elif row["name"] not in TELLS:
            assert "any" in rights, number
            assert set(rights) <= {"any", "internal", "kernel"}, number
    assert len(unlisted) < 20, unlisted


def test_privileged_families_are_refused() -> None:
    """The firmware's controls for root are refused: bit 14 of the number says so."""
    for number, row in JUDGED["families"].items():
        if int(number, 16) & 0x4000:
            assert row["verdict"] == "refuse", number


def test_what_nvidias_programs_ask_is_not_refused() -> None:
    """libcuda, NVML and nvidia-smi meet no refusal: their controls pass or are judged."""
    controls = client_numbers("controls")
    assert len(controls) > 50
    assert {hex(number) for number in controls if verdict(number) not in {"pass", "judge"}} == set()


def test_what_simulated_cards_answer_is_not_refused() -> None:
    """Controls that CUDA and management clients need of a simulated card pass or are judged."""
    for name, row in table("card.json")["controls"].items():
        assert verdict(row["cmd"]) in {"pass", "judge"}, name


def test_controls_that_change_something_run_one_at_a_time() -> None:
    """A control that exports, imports, schedules, binds or sets timeslices is in its container's order."""
    rows = HANDLERS.read_text().split("controls[] = {")[1].split("};")[0]
    changing = set(re.findall(r"(?:TRANSFERS|SCHEDULES|BINDS)\((\w+)", rows))
    changing |= set(re.findall(r"BY_PARAMETERS\((\w+), core_begin_set_timeslice", rows))
    assert len(changing) > 10
    header = (ROOT / "kmod" / "core" / "include" / "cgpu_changes.h").read_text()
    assert set(re.findall(r"case (\w+):", header)) == changing
