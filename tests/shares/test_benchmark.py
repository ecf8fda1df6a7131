# SPDX-License-Identifier: Apache-2.0
"""The benchmark of shares sees what a policy does, and misses its bounds where nothing is enforced."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from benchmarks.shares import __main__ as program
from benchmarks.shares import cases, changes, newcomers, plot, tables
from benchmarks.shares.binding import (
    FAIR,
    MS,
    NATIVE,
    PREEMPTIVE,
    SECOND,
    SOFT,
    WEIGHT,
    Case,
    Container,
    Harness,
    Running,
    Step,
)
from benchmarks.shares.cases import Finding

SVG = "{http://www.w3.org/2000/svg}"


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
    return Case(policy, containers, 10 * SECOND, slice_, time_slices=time_slices, costs=cases.COSTS)


def share_error(harness: Harness, case: Case) -> float:
    """Return the largest error of a share."""
    findings = list(cases.judge(case, harness.run(case), "mix"))
    return next(one.error for one in findings if one.what == "mix: share")


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
def test_shares_are_within_a_percent(harness: Harness, policy: int, *, time_slices: bool) -> None:
    """Shares are within 1 % of the policy in every mix, and are not where nothing is enforced."""
    found = {name: mixed(policy, name, harness.slice, time_slices=time_slices) for name in MIXES}
    errors = {name: share_error(harness, case) for name, case in found.items()}
    if not (time_slices and policy in (PREEMPTIVE, SOFT)):
        # In its grant a container's groups take the card from each other: these switches are its own affair.
        errors.pop("groups")
    assert {name: error for name, error in errors.items() if error > 0.01} == {}
    bare = {name: share_error(harness, replace(case, controls=False)) for name, case in found.items()}
    assert bare["groups"] > 0.1
    if policy not in (FAIR, PREEMPTIVE):
        assert min(bare["1:2:4"], bare["1:24"]) > 0.1


def high_error(harness: Harness, case: Case) -> float:
    """Return the largest error of a share of time on the card beside high priority."""
    with Running(harness, case) as running:
        for slot, one in enumerate(case.containers):
            running.join(slot, one)
        start = [running.figures(slot) for slot in running.members]
        running.advance(20 * SECOND)
        end = [running.figures(slot) for slot in running.members]
        dues = changes.dues(running)
    used = [one.used - before.used for one, before in zip(end, start, strict=True)]
    return max(abs(used[slot] / (20 * SECOND * due) - 1) for slot, due in dues.items())


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
@pytest.mark.parametrize("ratio", [50, 80])
def test_priority_is_within_a_percent(
    harness: Harness, ratio: int, policy: int, *, time_slices: bool
) -> None:
    """Both sides of high priority, and each container within its side, are within 1 % of the policy."""
    weights = [(1, True), (3, True), (1, False), (2, False), (4, False)]
    containers = [Container(weight, GREEDY, highprio=high) for weight, high in weights]
    case = Case(policy, containers, 0, harness.slice, 25, ratio, time_slices, costs=cases.COSTS)
    assert high_error(harness, case) < 0.01
    assert high_error(harness, replace(case, controls=False)) > 0.1


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
@pytest.mark.parametrize("high", [False, True])
def test_newcomers_are_served_within_a_round(
    harness: Harness, policy: int, *, high: bool, time_slices: bool
) -> None:
    """Whoever comes, or has work after a pause, has had its whole grant one round later."""
    case = replace(cases.base(harness.slice), time_slices=time_slices)
    for count in (2, 7, 25):
        assert newcomers.missing(harness, case, policy, count, high=high) <= newcomers.BOUND


def test_time_is_conserved_in_a_run(harness: Harness) -> None:
    """What containers had is what the card did; nothing idles under policy 1 while one has work."""
    containers = cases.mix("bursty", PREEMPTIVE, 5)
    case = Case(PREEMPTIVE, containers, 2 * SECOND, harness.slice, costs=cases.COSTS)
    result = harness.run(case)
    assert sum(one.busy for one in result.containers) == result.busy
    assert sum(one.switching for one in result.containers) == result.switching
    assert result.busy + result.switching + result.idle == case.duration
    assert result.idle_with_work == 0


def test_one_to_two(harness: Harness) -> None:
    """A line of the published tables comes out as 1:2 with disabled channels, and as 1:1 without."""
    row = tables.TABLES[-1]
    for kind in tables.KINDS:
        rates = tables.measure(harness, row, kind, WEIGHT, cases.base(harness.slice))
        assert rates.error < cases.TABLE_BOUND
        # Together the two fill the card but for what the switches take.
        assert 0.95 < (rates.first + rates.second) / (row.first + row.second) < 1
    bare = cases.base(harness.slice, controls=False)
    assert tables.measure(harness, row, "block", WEIGHT, bare).error > 0.3


def test_plots(harness: Harness) -> None:
    """Each policy has a plot with a line for each container; who has no time is at the bottom."""
    drawn = dict(plot.plots(harness, harness.slice))
    assert len(drawn) == len(cases.POLICIES) + 2
    drawn.pop("shares-changes.svg")
    for name, text in drawn.items():
        assert len(text) < 10_000, name
        lines = ET.fromstring(text).findall(f"{SVG}polyline")  # noqa: S314
        assert len(lines) == 3
        for line in lines[1:]:
            assert line.get("points", "").endswith(f",{plot.y(0):.1f}")


@pytest.mark.parametrize(("policy", "time_slices"), changes.MODES)
def test_changes_under_load(harness: Harness, policy: int, *, time_slices: bool) -> None:
    """Every kind of change keeps its bounds; where nothing is enforced, a share is off."""
    case = Case(
        policy, changes.containers(policy, 7), 0, harness.slice, 25, 80, time_slices, costs=cases.COSTS
    )
    kinds = {what: (before, apply) for what, before, apply in changes.changes(case)}
    assert {"join", "leave", "prio_ratio", "priority", "slice", "from policy 5"} < set(kinds)
    assert ("weight" in kinds) == (policy not in (FAIR, PREEMPTIVE))
    for what, (before, apply) in kinds.items():
        findings = list(changes.run(harness, changes.Scenario(what, before, apply, 3)))
        assert [one for one in findings if one.missed] == []
    high = kinds["prio_ratio"]
    bare = changes.Scenario("prio_ratio", replace(high[0], controls=False), high[1], 3)
    assert next(changes.run(harness, bare)).missed


def test_lost_work_is_seen(harness: Harness) -> None:
    """Kernels that do not end are counted: here, of a container that loses its weight."""
    case = Case(WEIGHT, changes.containers(WEIGHT, 2), 0, harness.slice)
    stuck = changes.Scenario("weight 0", case, lambda on: on.change(0, 0, highprio=False), 3)
    *_, wait, lost = changes.run(harness, stuck)
    assert lost.what.endswith("kernels lost in a change")
    assert lost.missed
    assert wait.missed


def test_steps_from_outside(harness: Harness) -> None:
    """What cannot be done is refused; a place that is taken again begins at 0."""
    case = Case(WEIGHT, [], 0, harness.slice)
    with Running(harness, case) as running:
        running.join(0, Container(1, by_hand=True))
        refused: list[Callable[[], None]] = [
            lambda: running.join(0, Container()),
            lambda: running.leave(1),
            lambda: running.change(1, 1, highprio=False),
            lambda: running.change(0, 26, highprio=False),
            lambda: running.set(replace(case, prio_ratio=100)),
            lambda: running.submit(1, Step(MS, 1)),
            lambda: running.submit(0, Step(MS, 1, 17)),
        ]
        for wrong in refused:
            with pytest.raises(ValueError, match="refused"):
                wrong()
        running.advance(SECOND)
        assert (running.figures(0).completed, running.figures(0).busy) == (16, 16 * MS)
        running.submit(0, Step(SECOND, 1))
        running.leave(0)
        assert (running.figures(0).cancelled, running.figures(0).submitted) == (1, 17)
        running.join(0, Container(1, by_hand=True))
        assert running.figures(0).submitted == 0
    with pytest.raises(ValueError, match="cannot be run"):
        Running(harness, replace(case, slice=1))


def test_exit_status_and_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missed bound is named and makes the exit status 1; figures without a bound do not."""
    every = itertools.product(tables.TABLES, tables.KINDS, (2, 3, 4))
    rates = [tables.Rates(row, kind, policy, 1, 2) for row, kind, policy in every]
    monkeypatch.setattr(tables, "run", lambda *_, **__: rates)
    monkeypatch.setattr(cases, "priority", lambda *_, **__: [])
    monkeypatch.setattr(cases, "unevenly", lambda *_, **__: [])
    monkeypatch.setattr(changes, "findings", lambda *_, **__: [])
    monkeypatch.setattr(newcomers, "findings", lambda *_, **__: [])
    fine = [Finding(policy, "3 greedy: share", 0.005, 0.01) for policy in cases.POLICIES if policy != NATIVE]
    fine.append(Finding(NATIVE, "3 greedy: share", 0.5))
    monkeypatch.setattr(cases, "mixes", lambda *_, **__: fine)
    assert program.main([]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("worst error: policy 0 0.50%")
    assert last.endswith("policy 5 50.00% (no bound)")
    monkeypatch.setattr(
        cases, "mixes", lambda *_, **__: [*fine, Finding(WEIGHT, "9 greedy: share", 0.02, 0.01)]
    )
    assert program.main([]) == 1
    printed = capsys.readouterr().out
    assert "missed: policy 2, 9 greedy: share: 0.0200, not above 0.01" in printed
    assert "policy 2 2.00%" in printed.splitlines()[-1]
