# SPDX-License-Identifier: Apache-2.0
"""The benchmark of shares sees what a policy does, and misses its bounds where nothing is enforced."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.shares import cases, changes, newcomers
from benchmarks.shares.binding import ROOT, SECOND, Case, Container, Harness, Running
from tests.policies import BY_NUMBER, WORKING, policies


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(tmp_path_factory.mktemp("shares"))


GREEDY = cases.greedy(0)
# By name: weight, channel groups and whether it has work, of each container.
MIXES: dict[str, list[tuple[int, int, bool]]] = {
    "equal": [(1, 1, True)] * 4,
    "1:2:4": [(1, 1, True), (2, 1, True), (4, 1, True)],
    "1:24": [(1, 1, True), (24, 1, True)],
    "many": [(1, 1, True)] * 25,
    "idle": [(1, 1, True), (2, 1, False), (4, 1, True), (8, 1, False), (3, 1, True)],
    "groups": [(1, 1, True), (2, 2, True), (1, 4, True)],
}


def mixed(policy: int, name: str, slice_: int, *, time_slices: bool) -> Case:
    containers = [
        Container(weight, cases.greedy(index) if works else (), groups=groups)
        for index, (weight, groups, works) in enumerate(MIXES[name])
    ]
    return Case(policy, containers, slice_, time_slices=time_slices, costs=cases.COSTS)


def share_error(harness: Harness, case: Case) -> float:
    findings = list(cases.judge(harness, case, "mix"))
    return next(one.error for one in findings if one.what == "mix: share")


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
def test_shares_are_within_a_percent(harness: Harness, policy: int, *, time_slices: bool) -> None:
    """Shares are within 1 % of the policy in every mix, and are not where nothing is enforced."""
    found = {name: mixed(policy, name, harness.slice, time_slices=time_slices) for name in MIXES}
    errors = {name: share_error(harness, case) for name, case in found.items()}
    if not (time_slices and policy in WORKING):
        # In its grant a container's groups take the card from each other: these switches are its own affair.
        errors.pop("groups")
    assert {name: error for name, error in errors.items() if error > 0.01} == {}
    bare = {name: share_error(harness, replace(case, controls=False)) for name, case in found.items()}
    assert bare["groups"] > 0.1
    if policy not in BY_NUMBER:
        assert min(bare["1:2:4"], bare["1:24"]) > 0.1


CELL = r"([\d, ]+) \|"
ROW = re.compile(rf"^\| (\d)(, C has high priority)?.*? \| {CELL} {CELL} {CELL} {CELL}$", re.MULTILINE)


def test_what_the_page_says_each_policy_gives_out(harness: Harness) -> None:
    """The table of docs/scheduling.md has what containers get, in percent of the time."""
    rows = ROW.findall((ROOT / "docs/scheduling.md").read_text())
    assert len(rows) == len(policies()) + 1
    for policy, high, *cells in rows:
        a, b, c = Container(1, GREEDY), Container(2, GREEDY), Container(2, GREEDY, highprio=bool(high))
        mixes = ([a], [a, b], [a, b, c], [a, b, replace(c, steps=())])
        for containers, cell in zip(mixes, cells, strict=True):
            case = Case(int(policy), containers, harness.slice, 8, costs=cases.COSTS)
            with Running(harness, case) as running:
                running.advance(10 * SECOND)
                used = [
                    running.figures(slot).used / SECOND * 10
                    for slot, one in enumerate(containers)
                    if one.steps
                ]
            assert used == pytest.approx([int(word) for word in cell.split(", ")], abs=1), (policy, cell)


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
@pytest.mark.parametrize("high", [False, True])
def test_newcomers_are_served_within_a_round(
    harness: Harness, policy: int, *, high: bool, time_slices: bool
) -> None:
    """A newcomer, or a container with work after a pause, has had its whole grant one round later."""
    case = replace(cases.base(harness.slice), time_slices=time_slices)
    for count in (2, 7, 25):
        assert newcomers.missing(harness, case, policy, count, high=high) <= newcomers.BOUND


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
def test_changes_under_load(harness: Harness, policy: int, *, time_slices: bool) -> None:
    """Every kind of change keeps its bounds; where nothing is enforced, a share is off."""
    case = Case(policy, changes.containers(policy, 7), harness.slice, 25, 80, time_slices, costs=cases.COSTS)
    kinds = {what: (before, apply) for what, before, apply in changes.changes(case)}
    assert {"join", "leave", "prio_ratio", "priority", "slice", "from policy 5"} < set(kinds)
    assert ("weight" in kinds) == (policy not in BY_NUMBER)
    for what, (before, apply) in kinds.items():
        findings = list(changes.run(harness, changes.Scenario(what, before, apply, 3)))
        assert [one for one in findings if one.missed] == []
    high = kinds["prio_ratio"]
    bare = changes.Scenario("prio_ratio", replace(high[0], controls=False), high[1], 3)
    assert next(changes.run(harness, bare)).missed
