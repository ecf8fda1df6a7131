# SPDX-License-Identifier: Apache-2.0
"""The suite notices engines that do something else: a judge that accepts all would prove nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.judge import fits
from tests.conformance.steps import (
    NOTHING,
    alter,
    attributes,
    case,
    containers,
    fails,
    race,
    read,
    write,
)
from tests.conformance.suite import Place, answers, command, suite, verify

ENOENT = {"errno": "ENOENT"}
# Each row has an expectation, answers that fit it, and answers that do not.
KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (None, ["x", None, []], [ENOENT, {"broken": "x"}]),
    ("1\n", ["1\n"], ["1", "", None, ENOENT]),
    ([], [[]], [["a"], ENOENT]),
    (ENOENT, [ENOENT], ["x", None, {"errno": "EIO"}, {"broken": "x"}]),
    (fails("ENOENT", "EIO"), [ENOENT, {"errno": "EIO"}], [None, {"errno": "EPERM"}]),
    (fails("*"), [ENOENT], [None, "x"]),
    (NOTHING, ["", ENOENT], ["x", None, {"broken": "x"}]),
    ({"match": "[0-9]+\n"}, ["12\n"], ["12", "x12\n", ENOENT, None]),
    ({"has": ["b"]}, ["abc", ["a", "b"]], ["ac", ["ab"], [], ENOENT]),
    ({"hasnt": ["b"]}, ["ac", ["ab"]], ["abc", ["b"], ENOENT]),
    ({"within": ["ok", "EIO"]}, [["ok"], ["EIO", "ok"]], [[], ["ENOENT", "ok"], ENOENT]),
    ({"fields": {"a": 1}}, [{"a": 1, "b": 2}], [{"a": 2}, {}, ENOENT]),
    ({"lines": {"a": ["1", "2"]}}, ["a x 2\nb 3\na 1\n"], ["a 1\n", "a 1\na 2\na 2\n", "", ENOENT]),
    ({"has": ["a"], "lines": {"b": ["1"]}}, ["a\nb 1\n"], ["b 1\n", "a\n"]),
]


def test_judge() -> None:
    """Every kind of expectation accepts what it says, and nothing else."""
    for expected, good, bad in KINDS:
        assert [got for got in good if not fits(expected, got)] == [], expected
        assert [got for got in bad if fits(expected, got)] == [], expected


def test_names_are_unique() -> None:
    """No case hides another one's answer."""
    found = [case.name for case in suite("cgpud", "0")]
    assert len(set(found)) == len(found)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a tree of plain files, which does little of what an engine does."""
    for gpu in ("0", "1"):
        (tmp_path / gpu).mkdir()
        for node in ("max_inst", "policy", "prio_ratio"):
            (tmp_path / gpu / node).write_text("1\n")
        (tmp_path / gpu / "reserved").touch()
    (tmp_path / "default_memsize").write_text("0\n")
    return Place(str(tmp_path), "/dev", cgroups=False)


@pytest.mark.parametrize(
    "step",
    [
        read("0/policy", "2\n"),
        read("none"),
        write("0/policy", "9", fails("EINVAL")),
        containers(0, ["x"]),
        attributes("0/policy", mode="0444", size=0),
        race(3, [[read("none")]], "ok"),
        alter("mkdir", "new"),
        read("0/policy", fails("EPERM"), **{"as": "stranger"}),
    ],
    ids=lambda step: step["op"],
)
def test_wrong_steps_fail(place: Place, step: dict[str, Any]) -> None:
    """An engine that does something else fails the case, with the step and what it gave."""
    wrong = case("wrong", "This is not so.", step)
    done = subprocess.run(command(), input=place.plan([wrong]), capture_output=True, text=True, check=True)
    with pytest.raises(AssertionError, match=r"This is not so\.\n.*\n    gave "):
        verify(wrong, answers(done.stdout))
