# SPDX-License-Identifier: Apache-2.0
"""The parts of benchmarks/kubernetes that need no cluster."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.kubernetes import objects
from benchmarks.kubernetes.measure import SCHEDULED, Measured, Usage
from benchmarks.kubernetes.report import table
from benchmarks.kubernetes.steps import COMPARED, Extent, Result, Step, planned

COMPONENTS = ("kube-scheduler", "kube-apiserver", "etcd")


def test_pods_that_are_there_fit() -> None:
    """Whatever number of them: no card has more than it offers, and room is left for those to be placed."""
    placed = objects.places(range(2000), 100)
    used = Counter((one.node, one.card) for one in placed)
    assert set(used.values()) <= {objects.FILLED_GIB, 8}
    assert max(card for _, card in used) < objects.CARDS
    with pytest.raises(ValueError, match="no room"):
        objects.places(range(100 * objects.CARDS * objects.GIB_OF_CARD), 100)


def test_the_most_that_is_asked_for_fits() -> None:
    """The last step of all has as many cards as it needs."""
    last = Extent()
    assert last.filled <= last.nodes * objects.CARDS * objects.FILLED_GIB
    room = objects.GIB_OF_CARD - objects.FILLED_GIB
    assert room * last.nodes > 4 * last.pods


def test_a_claim_is_given_what_its_slice_offers() -> None:
    """What is written as the scheduler's work names devices and capacities that the node publishes."""
    (published,) = objects.slices(range(7, 8))
    offered = {one["name"]: one["capacity"] for one in published.body["spec"]["devices"]}
    (written,) = objects.allocations([objects.Place("old", 7, 1)])
    (result,) = written.body["status"]["allocation"]["devices"]["results"]
    assert set(result["consumedCapacity"]) == set(offered[result["device"]])


def test_plan() -> None:
    """Each variant has the same steps, from few nodes to many, from no pods to many."""
    steps = [step for plane in planned(Extent(nodes=500, filled=1000)) for step in plane]
    for variant in COMPARED:
        mine = [
            (step.nodes, step.filled) for step in steps if step.variant == variant and step.qps.limit is None
        ]
        assert mine == [(100, 0), (500, 0), (500, 1000)]


def test_table() -> None:
    """A line has the rate, and what each component took; nobody helps a scheduler without claims."""
    usage = {name: Usage(1.25, 300) for name in COMPONENTS}
    found = table([Result(Step("plain", 100), Measured(500, 2.0, usage))]).splitlines()
    assert found[1].split() == [
        *("plain", "100", "0", "no", "limit", "250"),
        *("1.2", "1.2", "1.2", "-", "300", "300", "300", "-"),
    ]


def test_what_the_scheduler_says() -> None:
    """The pods that are bound stand among its metrics."""
    said = (
        b'scheduler_schedule_attempts_total{profile="default-scheduler",result="error"} 3\n'
        b'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1200\n'
    )
    found = SCHEDULED.search(said)
    assert found is not None
    assert found[1] == b"1200"
