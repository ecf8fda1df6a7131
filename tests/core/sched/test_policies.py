# SPDX-License-Identifier: Apache-2.0
"""Every list of policies has those of the core's table."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
from pathlib import Path

from cgpu.config.effective import DEFAULTS
from cgpu.smi.scheduling import POLICIES, Policy

ROOT = Path(__file__).resolve().parents[3]
COUNT = len(POLICIES)
HEADER = (ROOT / "kmod/core/include/policies.h").read_text()
TRAITS = re.findall(r"^\tu32 (\w+);", HEADER, re.MULTILINE)
# Traits that say how the engine divides the time, and not how much a container gets: no tool needs them.
ENGINE_ONLY = {"timeslices", "heavier"}


class CPolicy(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), *((trait, ctypes.c_uint32) for trait in TRAITS))


def test_rows_are_the_core_s(library: ctypes.CDLL, tmp_path: Path) -> None:
    """cgpu-smi and the installer have the core's policies: as many, with these names and traits."""
    traits = set(TRAITS) - ENGINE_ONLY
    assert {field.name for field in dataclasses.fields(Policy)} == traits | {"name"}
    rows = (CPolicy * COUNT).in_dll(library, "cgpu_policies")
    for row, known in zip(rows, POLICIES, strict=True):
        assert row.name.decode() == known.name
        for trait in traits:
            assert getattr(row, trait) == getattr(known, trait), known.name


def test_configuration_takes_each() -> None:
    """The schema's bound and its description, and the documents, have all policies by their names."""
    key = json.loads((ROOT / "cgpu/config/schema.json").read_text())["properties"]["policy"]
    assert (key["minimum"], key["maximum"], key["default"]) == (0, COUNT - 1, DEFAULTS["policy"])
    documented = (ROOT / "docs/scheduling.md").read_text()
    tables = (
        documented,
        *((ROOT / "docs" / name).read_text() for name in ("commands/cgpu-smi.md", "tree.md")),
    )
    for number, known in enumerate(POLICIES):
        assert f"{number} {known.name}" in key["description"]
        assert all(f" {number} {known.name}" in table for table in tables)
        assert f"shares-policy-{number}.svg" in documented


def test_a_weight_moves_one_policy(library: ctypes.CDLL) -> None:
    """A weight above 1 moves a GPU from preemptive to weight preemptive, and from no other policy."""
    names = [one.name for one in POLICIES]
    for number in range(COUNT):
        heavier = library.cgpu_policy_for_weight(number, 2)
        assert library.cgpu_policy_for_weight(number, 1) == number
        if names[number] == "preemptive":
            assert names[heavier] == "weight preemptive"
            assert library.cgpu_policy_before_weight(heavier) == number
        else:
            assert heavier == number
