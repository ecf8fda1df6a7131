# SPDX-License-Identifier: Apache-2.0
"""Newcomers: a container that comes, or has work after a pause, has its first grant within one round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.shares import cases, changes
from benchmarks.shares.binding import INSTRUCTION, US, Case, Container, Harness, Running, Step
from benchmarks.shares.cases import Finding
from benchmarks.shares.changes import COUNTS, MODES, RATIO, WARM

KINDS = ("join", "wake")
PHASES = 14  # parts of a round, at the end of each of which one comes
WORK = Step(300 * US, INSTRUCTION, 500)  # of one that wakes: more than a grant
# Part of a grant: what it had before its channels were disabled when it came, and one change of channels.
BOUND = 0.02


@dataclass(frozen=True)
class Arrival:
    """A case, and a newcomer that comes after so many parts of a round."""

    case: Case
    slot: int
    kind: str
    phase: int


def first_round(running: Running) -> int:
    """Longest time that all others have before a newcomer has had its grant."""
    case, members = running.case, running.members.values()
    round_ = changes.round_of(running)
    if any(one.highprio for one in members):
        # The side that is served more slowly may have had its part just before.
        return round_ + case.slice * 100 // min(case.prio_ratio, 100 - case.prio_ratio)
    if cases.by_card(running):
        # The card's own time slices are those of kernels alone.
        return round_ + len(members) * (case.costs.switch + case.costs.save)
    return round_


def arrive(harness: Harness, arrival: Arrival) -> float:
    """Return the part of its grant that the newcomer had not had after a round."""
    case, new = arrival.case, arrival.slot
    comes = case.containers[new]
    with Running(harness, case, without=new) as running:
        if arrival.kind == "wake":
            running.join(new, replace(comes, steps=(), by_hand=True, depth=WORK.count))
        before = changes.round_of(running)
        running.advance(WARM * before + before * arrival.phase // PHASES)
        if arrival.kind == "wake":
            running.submit(new, WORK)
        else:
            running.join(new, comes)
        running.advance(first_round(running))
        had = running.figures(new).used
    return 1 - had / (cases.units(case.policy, comes) * case.slice)


def arrivals(case: Case) -> Iterator[Arrival]:
    """Yield each way and each moment to come."""
    last = len(case.containers) - 1
    for kind in KINDS:
        for slot in {last, (last + 1) // 2}:
            for phase in range(PHASES):
                yield Arrival(case, slot, kind, phase)


def missing(harness: Harness, common: Case, policy: int, count: int, *, high: bool) -> float:
    """Return the largest part of a first grant that was missing, beside so many others."""
    members: list[Container] = changes.containers(policy, count)
    members[0] = replace(members[0], highprio=high)
    case = replace(common, policy=policy, containers=members, prio_ratio=RATIO)
    return max(arrive(harness, arrival) for arrival in arrivals(case))


def findings(harness: Harness, common: Case) -> Iterator[Finding]:
    """Every way to come, under every policy that divides time, to 1 to 24 others."""
    for policy, time_slices in MODES:
        by_channels = "" if time_slices else " by channels"
        case = replace(common, time_slices=time_slices)
        for count in COUNTS:
            for high in (False, True):
                what = f"{count} arriving{by_channels}{' beside priority' if high else ''}"
                found = missing(harness, case, policy, count, high=high)
                yield Finding(policy, f"{what}: first grant missing after a round", found, BOUND)
