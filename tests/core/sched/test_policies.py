# SPDX-License-Identifier: Apache-2.0
"""The policies that the engine publishes, and what else names them."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import pytest

from cgpu.client.policies import Policy, parse
from cgpu.config.effective import DEFAULTS
from tests.policies import policies, text
from tests.refusal import refused

ROOT = Path(__file__).resolve().parents[3]


def test_what_is_published() -> None:
    """Each policy has a line with its number, what it promises, and its name."""
    assert re.fullmatch(r"(policy=\d( \w+=[01]){4} name=[a-z ]+\n)+", text())
    assert list(policies().values()) == [
        Policy("fair share", by_number=True, keeps_idle=True, keeps_free=True),
        Policy("preemptive", by_number=True),
        Policy("weight preemptive", keeps_idle=True),
        Policy("fixed percentage", keeps_idle=True, keeps_free=True),
        Policy("soft"),
        Policy("native", undivided=True),
    ]


@pytest.mark.parametrize("wrong", ["", " name=a", "policy=1 name=a"])
def test_what_is_none(wrong: str) -> None:
    """Words of a newer engine are ignored; a line that lacks one is refused."""
    good = text().replace("policy=0", "new=2 policy=0")
    assert parse(good) == policies()
    with refused("policies: ", "expected policy, by_number, keeps_idle, keeps_free, undivided and name"):
        parse(f"{good}{wrong}\n")


def test_configuration_takes_each() -> None:
    """The schema's bounds, and the page on GPU time, have all policies."""
    key = json.loads((ROOT / "cgpu/config/schema.json").read_text())["properties"]["policy"]
    bounds = (0, len(policies()) - 1, DEFAULTS["policy"])
    assert (key["minimum"], key["maximum"], key["default"]) == bounds
    documented = (ROOT / "docs/scheduling.md").read_text()
    for number, known in policies().items():
        assert f"| {number} {known.name} |" in documented
        assert f"\n| {number} | 1" in documented


def test_a_weight_moves_one_policy(library: ctypes.CDLL) -> None:
    """A weight above 1 moves a GPU from preemptive to weight preemptive, and from no other policy."""
    names = {number: one.name for number, one in policies().items()}
    for number, name in names.items():
        heavier = library.cgpu_policy_for_weight(number, 2)
        assert library.cgpu_policy_for_weight(number, 1) == number
        if name == "preemptive":
            assert names[heavier] == "weight preemptive"
            assert library.cgpu_policy_before_weight(heavier) == number
        else:
            assert heavier == number
