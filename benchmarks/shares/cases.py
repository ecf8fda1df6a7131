# SPDX-License-Identifier: Apache-2.0
"""Mixes of containers, each policy's shares for them, and a run's distance from those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.shares.binding import (
    INSTRUCTION,
    MS,
    SECOND,
    US,
    Case,
    Container,
    Costs,
    Harness,
    Running,
    Step,
)
from tests.policies import BY_NUMBER, DIVIDED, KEEPS_FREE, KEEPS_IDLE, NATIVE, WORKING, policies

MAX_INST = 25
DURATION = 10 * SECOND
# Estimates: no source has these times.
COSTS = Costs(switch=30 * US, save=20 * US, command=20 * US)
RATIOS = (20, 50, 80, 99)

# Weights that differ by more than those of weights().
UNEVEN = ((1, 24), (1, 2, 4), (1, 1, 1, 22), (1, 1, 1, 1, 8, 8))

SHARE_BOUND = 0.01
TABLE_BOUND = 0.01


@dataclass(frozen=True)
class Finding:
    """One figure of one run: an error, and its bound; None: it is only reported."""

    policy: int
    what: str
    error: float
    bound: float | None = None

    @property
    def missed(self) -> bool:
        return self.bound is not None and self.error > self.bound


def weights(policy: int, count: int) -> list[int]:
    """Weights that a card of 25 can give out; some policies know none."""
    if policy in BY_NUMBER:
        return [1] * count
    if count <= 12:
        return [1 + index % 3 for index in range(count)]
    return [1 + (index < MAX_INST - count) for index in range(count)]


def greedy(index: int, grain: int = INSTRUCTION) -> tuple[Step, ...]:
    """A program that always has work: kernels of 100 to 500 us, of another length in each container."""
    return (Step(100 * US + index * 16 * US, grain, 7), Step(500 * US - index * 9 * US, grain, 3))


def bursty(index: int) -> tuple[Step, ...]:
    """A program that works some milliseconds and then pauses longer."""
    return (Step(200 * US, INSTRUCTION, 10 + index, (13 + index) * MS),)


def mix(kind: str, policy: int, count: int) -> list[Container]:
    """Containers: all greedy, or every second one idle, bursty, or with kernels that cannot be preempted."""
    out = []
    for index, weight in enumerate(weights(policy, count)):
        steps = greedy(index)
        if index % 2 and kind == "idle":
            steps = ()
        elif index % 2 and kind == "bursty":
            steps = bursty(index)
        elif kind == "whole kernels":
            steps = greedy(index, grain=0)
        out.append(Container(weight, steps))
    return out


def units(policy: int, one: Container) -> int:
    """Units of the card that a container counts for."""
    return min(1, one.weight) if policy in BY_NUMBER else one.weight


def counted(policy: int, members: dict[int, Container]) -> dict[int, int]:
    """Units of those that the time is divided among: all of the registered, or those with work."""
    all_count = policy in KEEPS_IDLE
    return {slot: units(policy, one) if all_count or one.has_work else 0 for slot, one in members.items()}


def dues(running: Running) -> dict[int, float]:
    """Share of each container, by the policy in force. One without a process gets nothing."""
    case, members = running.case, running.members
    sides = {
        high: counted(case.policy, {slot: one for slot, one in members.items() if one.highprio is high})
        for high in (True, False)
    }
    # Units of places that are not given out.
    kept = max(0, case.max_inst - sum(sides[False].values())) if case.policy in KEEPS_FREE else 0
    out: dict[int, float] = {}
    for high, found in sides.items():
        other = any(sides[not high].values()) or (high and kept)
        ratio = case.prio_ratio / 100
        part = (ratio if high else 1 - ratio) if other else 1.0
        whole = sum(found.values()) + (0 if high else kept)
        out |= {slot: part * unit / whole if unit else 0.0 for slot, unit in found.items()}
    return {slot: due if members[slot].has_work else 0.0 for slot, due in out.items()}


def by_card(running: Running) -> bool:
    """Whether the card's own time slices divide the time: not beside high priority."""
    case = running.case
    by_slices = case.policy == NATIVE or (case.policy in WORKING and case.time_slices)
    return by_slices and not any(one.highprio for one in running.members.values())


def measured(running: Running, window: int) -> tuple[dict[int, float], int]:
    """
    The time that each one had in a window, and the time that was divided.

    By the card: the time of the kernels. Where channels are disabled: all time, and what switches take counts
    for all by their kernels.
    """
    before = {slot: running.figures(slot) for slot in running.members}
    running.advance(window)
    after = {slot: running.figures(slot) for slot in running.members}
    kernels = {slot: after[slot].busy - before[slot].busy for slot in after}
    used = {slot: after[slot].used - before[slot].used for slot in after}
    busy = sum(kernels.values())
    if by_card(running):
        return {slot: float(time) for slot, time in kernels.items()}, busy
    if any(one.highprio for one in running.members.values()):
        # A change of sides is one more switch, in the middle of a grant.
        return {slot: float(time) for slot, time in used.items()}, window
    return {slot: time * sum(used.values()) / (busy or 1) for slot, time in kernels.items()}, window


def is_greedy(container: Container) -> bool:
    return bool(container.steps) and all(step.pause == 0 for step in container.steps)


def judge(harness: Harness, case: Case, what: str) -> Iterator[Finding]:
    """Run a case, and compare it with what its policy says."""
    policy = case.policy
    with Running(harness, case) as running:
        wanted = dues(running)
        had, whole = measured(running, DURATION)
        kernels = {slot: running.figures(slot).busy / DURATION for slot in wanted}
        idle = running.idle_with_work() / DURATION
    holds = policy in KEEPS_IDLE or not case.time_slices
    errors = [
        abs(had[slot] / whole / wanted[slot] - 1)
        for slot, one in enumerate(case.containers)
        if is_greedy(one) and (holds or all(map(is_greedy, filter(lambda one: one.steps, case.containers))))
    ]
    # The card's own time slices do not make up for a kernel that ran beyond one.
    unruly = any(step.grain == 0 for one in case.containers for step in one.steps)
    bound = None if policy == NATIVE or (unruly and policy in WORKING) else SHARE_BOUND
    if not case.time_slices:
        bound = SHARE_BOUND
    if errors:
        yield Finding(policy, f"{what}: share", max(errors), bound)
    if policy in KEEPS_FREE:
        over = max(kernels[slot] - due for slot, due in wanted.items())
        yield Finding(policy, f"{what}: above the cap", max(0.0, over), case.slice / DURATION)
    if policy in WORKING and case.time_slices:
        yield Finding(policy, f"{what}: idle while one has work", idle, 0.0)


def base(slice_: int, *, controls: bool = True) -> Case:
    """Common parts of all cases; each replaces its policy and its containers."""
    return Case(NATIVE, [], slice_, MAX_INST, costs=COSTS, controls=controls)


def mixes(harness: Harness, common: Case) -> Iterator[Finding]:
    """Every policy with every number of containers in every mix, and each alone."""
    for policy in policies():
        for kind in ("greedy", "idle", "bursty", "whole kernels"):
            for count in range(1 if kind == "greedy" else 2, MAX_INST + 1):
                case = replace(common, policy=policy, containers=mix(kind, policy, count))
                yield from judge(harness, case, f"{count} {kind}")
                if policy in WORKING and kind == "whole kernels":
                    by_channels = replace(case, time_slices=False)
                    yield from judge(harness, by_channels, f"{count} {kind} by channels")


def unevenly(harness: Harness, common: Case) -> Iterator[Finding]:
    """Light containers beside heavy ones: each has as many switches in a round as the others."""
    for policy in (one for one in DIVIDED if one not in BY_NUMBER):
        for found in UNEVEN:
            containers = [Container(weight, greedy(index)) for index, weight in enumerate(found)]
            case = replace(common, policy=policy, containers=containers)
            weights_ = ":".join(map(str, found))
            yield from judge(harness, case, f"{weights_} uneven")
            if policy in WORKING:
                by_channels = replace(case, time_slices=False)
                yield from judge(harness, by_channels, f"{weights_} uneven by channels")


def priority(harness: Harness, common: Case) -> Iterator[Finding]:
    """One container of high priority beside two others, under every policy that knows priority."""
    # A slice more or less would drown in what the calls of the driver take; mixes() has them.
    costs, slice_ = replace(COSTS, command=0), common.slice
    for policy in DIVIDED:
        for ratio in RATIOS:
            others = [Container(1, greedy(index)) for index in (1, 2)]
            three = [Container(1, greedy(0), highprio=True), *others]
            case = replace(common, policy=policy, containers=three, max_inst=3, prio_ratio=ratio, costs=costs)
            with Running(harness, case) as running:
                running.advance(DURATION)
                high, *low = (running.figures(slot).used for slot in range(3))
            off = abs(high - DURATION * ratio / 100) / slice_
            yield Finding(policy, f"priority {ratio}: slices off in 10 s", off, 1.0)
            apart = abs(low[0] - low[1])
            excess = max(0.0, apart - 2 * slice_) / max(low)
            yield Finding(policy, f"priority {ratio}: others apart", excess, SHARE_BOUND)
            burst = replace(case, containers=[Container(1, bursty(0), highprio=True), *others])
            with Running(harness, burst) as running:
                running.advance(DURATION)
                waited = running.figures(0).waited
            limit = (slice_ + costs.switch + costs.save) / slice_
            yield Finding(policy, f"priority {ratio}: slices waited", waited / slice_, limit)
