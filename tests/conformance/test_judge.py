# SPDX-License-Identifier: Apache-2.0
"""The suite notices engines that do something else: a judge that accepts all would prove nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.steps import (
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
