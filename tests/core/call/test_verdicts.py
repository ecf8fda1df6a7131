# SPDX-License-Identifier: Apache-2.0
"""What holds for the table of classes and for that of controls alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgpu.kmod.abi import judge
from tests.core.call.verdicts import ABI, run_on_copies, table

FACTS = {"classes": table("class_facts.json"), "controls": table("control_facts.json")}
ROWS = {kind: table(f"{kind}.json")[kind] for kind in FACTS}
# The driver reads none of the clients that its parameters name.
UNREAD = {"NV_CONFIDENTIAL_COMPUTE"}
GENERATED = ("generate.py", "fields.h", "nvidia.json", "controls.json", "classes.json")
kinds = pytest.mark.parametrize("kind", list(FACTS))


@kinds
def test_every_known_one_has_a_verdict(kind: str) -> None:
    """No class or control of the newest header set, or of one before it, is without a verdict."""
    assert judge.missing(kind, FACTS[kind][kind], ROWS[kind]) == {}
    assert FACTS[kind]["last"] == "595.45.04"


@kinds
def test_parameters_that_name_clients_are_judged(kind: str) -> None:
    """None goes on unjudged whose parameters name a client of RM that the driver reads."""
    for number, fact in FACTS[kind][kind].items():
        if any("client" in field.lower() for field in fact.get("inside", [])):
            assert ROWS[kind][number]["verdict"] != "pass" or fact["name"] in UNREAD, number


@pytest.mark.parametrize(
    ("kind", "facts", "number", "row"),
    [
        ("classes", "class_facts.json", "0xcbc0", ("HOPPER_COMPUTE_A", "engine")),
        ("controls", "control_facts.json", "0x20800110", ("NV2080_CTRL_CMD_GPU_GET_NAME_STRING", "read")),
    ],
)
def test_command_names_what_has_no_verdict(
    tmp_path: Path, kind: str, facts: str, number: str, row: tuple[str, str]
) -> None:
    """The command prints a line for each without a verdict, and says so by its exit status."""
    judged = table(f"{kind}.json")
    del judged[kind][number]
    files = ("judge.py", facts, f"{kind}.json")
    done = run_on_copies(tmp_path, files, {f"{kind}.json": json.dumps(judged)}, "judge.py", kind)
    line = f'  "{number}": {{"name": "{row[0]}", "verdict": "pass", "why": "{row[1]}"}},\n'
    assert (done.returncode, done.stdout) == (1, line)


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("classes", '"verdict": "pass"', '"verdict": "unknown"'),
        ("classes", '"by": "device"', '"by": "somebody"'),
        ("classes", '"verdict": "judge", "by": "device"', '"verdict": "judge"'),
        ("classes", '"0x80": {', '"0x7ffe": {'),
        ("controls", '"verdict": "pass"', '"verdict": "unknown"'),
    ],
)
def test_generator_refuses_a_table_with_gaps(tmp_path: Path, kind: str, old: str, new: str) -> None:
    """A verdict or a function that is none, and a class without one, do not get into the C table."""
    good = (ABI / f"{kind}.json").read_text()
    assert old in good
    changed = {f"{kind}.json": good.replace(old, new, 1)}
    done = run_on_copies(tmp_path, GENERATED, changed, "generate.py", "gen")
    assert done.returncode != 0
    assert ("expected one of" if kind == "controls" else "expected one") in done.stderr
