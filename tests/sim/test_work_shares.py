# SPDX-License-Identifier: Apache-2.0
"""The benchmark of shares sees what a policy does, and misses its bounds where nothing is enforced."""

from __future__ import annotations

import itertools
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from benchmarks.shares import __main__ as program
from benchmarks.shares import cases, plot, tables
from benchmarks.shares.binding import (
    FAIR,
    FIXED,
    MS,
    NATIVE,
    PREEMPTIVE,
    SECOND,
    WEIGHT,
    Case,
    Container,
    Costs,
    Harness,
)
from benchmarks.shares.cases import Finding

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """Return the compiled harness."""
    return Harness(tmp_path_factory.mktemp("shares"))


def greedy(policy: int, count: int, slice_: int) -> Case:
    return Case(policy, cases.mix("greedy", policy, count), 2 * SECOND, slice_, costs=cases.COSTS)


@pytest.mark.parametrize("policy", [FAIR, WEIGHT, FIXED])
def test_what_gates_enforce_is_seen(harness: Harness, policy: int) -> None:
    """Shares keep their bounds with levers and miss them without."""
    case = greedy(policy, 4, harness.slice)
    findings = list(cases.judge(case, harness.run(case), "4 greedy"))
    assert findings
    assert not any(one.missed for one in findings)
    bare = replace(case, levers=False)
    assert any(one.missed for one in cases.judge(bare, harness.run(bare), "4 greedy"))


def test_time_is_conserved_in_a_run(harness: Harness) -> None:
    """What containers had is what the card did; nothing idles under policy 1 while one has work."""
    case = replace(greedy(PREEMPTIVE, 5, harness.slice), containers=cases.mix("bursty", PREEMPTIVE, 5))
    result = harness.run(case)
    assert sum(one.busy for one in result.containers) == result.busy
    assert sum(one.switching for one in result.containers) == result.switching
    assert result.busy + result.switching + result.idle == case.duration
    assert result.idle_with_work == 0


def test_a_run_is_deterministic(harness: Harness) -> None:
    """The same case gives the same figures."""
    first, second = (harness.run(greedy(WEIGHT, 7, harness.slice)) for _ in range(2))
    assert first.containers == second.containers


def test_members_come_and_go(harness: Harness) -> None:
    """A container has nothing before it joins and after it leaves, and the other one gets the card back."""
    steps = cases.greedy(0)
    containers = [Container(1, steps), Container(1, steps, join=SECOND, leave=2 * SECOND)]
    case = Case(WEIGHT, containers, 3 * SECOND, harness.slice, costs=Costs(), sample=100 * MS)
    rows = harness.run(case).samples
    assert rows[9][1] == 0
    assert rows[19][1] == pytest.approx(SECOND / 2, rel=0.01)
    assert rows[29][1] == rows[19][1]
    assert rows[29][0] - rows[19][0] == pytest.approx(SECOND, rel=0.01)


def test_a_case_that_cannot_be_run_is_refused(harness: Harness) -> None:
    """A weight that the scheduler does not take ends the run."""
    with pytest.raises(ValueError, match="cannot be run"):
        harness.run(Case(WEIGHT, [Container(26, cases.greedy(0))], SECOND, harness.slice))


def test_one_to_two(harness: Harness) -> None:
    """A line of the published tables comes out as 1:2 with gates, and as 1:1 without."""
    row = tables.TABLES[-1]
    for kind in tables.KINDS:
        rates = tables.measure(harness, row, kind, WEIGHT, harness.slice, levers=True)
        assert rates.error < cases.TABLE_BOUND
        # Together the two fill the card but for what the switches take.
        assert 0.95 < (rates.first + rates.second) / (row.first + row.second) < 1
    assert tables.measure(harness, row, "block", WEIGHT, harness.slice, levers=False).error > 0.3


def test_plots(harness: Harness) -> None:
    """Each policy has a plot with a line for each container; who has no time is at the bottom."""
    drawn = dict(plot.plots(harness, harness.slice))
    assert len(drawn) == len(cases.POLICIES) + 1
    for name, text in drawn.items():
        assert len(text) < 10_000, name
        lines = ET.fromstring(text).findall(f"{SVG}polyline")  # noqa: S314
        assert len(lines) == 3
        for line in lines[1:]:
            assert line.get("points", "").endswith(f",{plot.y(0):.1f}")


def test_exit_status_and_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missed bound is named and makes the exit status 1; figures without a bound do not."""
    every = itertools.product(tables.TABLES, tables.KINDS, (2, 3, 4))
    rates = [tables.Rates(row, kind, policy, 1, 2) for row, kind, policy in every]
    monkeypatch.setattr(tables, "run", lambda *_, **__: rates)
    monkeypatch.setattr(cases, "priority", lambda *_, **__: [])
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
