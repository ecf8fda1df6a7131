# SPDX-License-Identifier: Apache-2.0
"""The suite notices engines that do something else: a judge that accepts all would prove nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.judge import fits
from tests.conformance.steps import (
    NOTHING,
    Case,
    alter,
    attributes,
    case,
    containers,
    fails,
    finish,
    go,
    names,
    opens,
    part,
    race,
    read,
    start,
    write,
)
from tests.conformance.suite import Place, answers, command, suite, verify

ENOENT = {"errno": "ENOENT"}


@pytest.mark.parametrize(
    ("expected", "good", "bad"),
    [
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
    ],
)
def test_judge(expected: Any, good: list[Any], bad: list[Any]) -> None:
    """Every kind of expectation accepts what it says, and nothing else."""
    assert [got for got in good if not fits(expected, got)] == []
    assert [got for got in bad if fits(expected, got)] == []


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


def carried_out(place: Place, *cases: Case, program: str = "") -> dict[str, Any]:
    """Carry out cases as the suite's tests do; program: what stands for the probe."""
    plan = json.loads(place.plan(list(cases)))
    plan["place"]["programs"]["probe"] = ["/bin/sh", "-c", program]
    done = subprocess.run(command(), input=json.dumps(plan), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return answers(done.stdout)


def test_right_steps_pass(place: Place) -> None:
    """The executor does what each step says."""
    right = case(
        "right",
        "Files hold what is written to them.",
        [write("0/policy", "2\n"), read("0/policy", "2\n"), read("0/policy", "2\n", size=1)],
        [opens("file", "0/policy"), part("file", 1, 9, "\n")],
        [names("0", ["max_inst", "policy", "prio_ratio", "reserved"]), containers(0, [])],
        attributes("0/policy", kind="file", uid=0, size=2),
        [alter("remove", "none"), alter("mkdir", "0"), read("none", fails("ENOENT"))],
        [start("p", 7, "probe"), go("p"), finish("p", match="hello [0-9]+ {pid:p}\n")],
        race(5, [[read("0/policy")], [read("none")]], "ok", "ENOENT"),
    )
    verify(right, carried_out(place, right, program='read -r line; echo "hello 1 $$"'))


@pytest.mark.root
def test_other_users(place: Place) -> None:
    """A step that is carried out as somebody else has that one's rights."""
    Path(place.tree, "0", "policy").chmod(0o600)
    Path(place.tree).parent.chmod(0o700)
    other = case(
        "other",
        "Files of root are root's.",
        read("0/policy", fails("EACCES"), **{"as": "nobody"}),
        *(read("0/policy", "1\n", **{"as": who}) for who in ("plain", "userns")),
    )
    verify(other, carried_out(place, other))


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
    with pytest.raises(AssertionError, match=r"This is not so\.\n.*\n    gave "):
        verify(wrong, carried_out(place, wrong))


def test_settings_are_put_back(place: Place) -> None:
    """A case may leave settings changed: the next one finds them as they were."""
    first = case("first", "It changes.", write("0/policy", "5"))
    then = case("then", "It is as before.", read("0/policy", "1\n"))
    found = carried_out(place, first, then)
    verify(first, found)
    verify(then, found)


def test_a_case_that_was_not_reached(place: Place) -> None:
    """A case without an answer fails."""
    missing = case("missing", "Nobody asked.")
    with pytest.raises(AssertionError, match="missing: the executor ended before it, or in it"):
        verify(missing, {})
