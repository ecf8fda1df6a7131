# SPDX-License-Identifier: Apache-2.0
"""Mixes of containers, each policy's shares for them, and a run's distance from those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    Result,
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


def says(policy: int, containers: Sequence[Container]) -> list[float]:
    """Share of each container that always has work, by a policy. One without a process gets nothing."""
    shared = [1 if policy in BY_NUMBER else one.weight for one in containers]
    if policy in KEEPS_FREE:
        whole = MAX_INST
    elif policy in KEEPS_IDLE:
        whole = sum(shared)
    else:
        whole = sum(weight for weight, one in zip(shared, containers, strict=True) if one.steps)
    return [weight / whole if one.steps else 0.0 for weight, one in zip(shared, containers, strict=True)]


def shares(case: Case, result: Result) -> list[float]:
    """
    The time of each one's kernels, of that of all kernels.

    Where channels are disabled: of all time, and what switches take counts for all by their kernels.
    """
    of_kernels = [one.busy / result.busy for one in result.containers]
    if case.policy in KEEPS_IDLE or (case.policy != NATIVE and not case.time_slices):
        at_work = (result.busy + result.switching) / case.duration
        return [part * at_work for part in of_kernels]
    return of_kernels


def is_greedy(container: Container) -> bool:
    return bool(container.steps) and all(step.pause == 0 for step in container.steps)


def judge(case: Case, result: Result, what: str) -> Iterator[Finding]:
    """Compare a run with what its policy says."""
    policy, wanted = case.policy, says(case.policy, case.containers)
    got = shares(case, result)
    holds = policy in KEEPS_IDLE or not case.time_slices
    errors = [
        abs(share / due - 1)
        for share, due, one in zip(got, wanted, case.containers, strict=True)
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
        slack = case.slice / case.duration
        kernels = [one.busy / case.duration for one in result.containers]
        over = max(share - due for share, due in zip(kernels, wanted, strict=True))
        yield Finding(policy, f"{what}: above the cap", max(0.0, over), slack)
    if policy in WORKING and case.time_slices:
        yield Finding(policy, f"{what}: idle while one has work", result.idle_with_work / case.duration, 0.0)


def base(slice_: int, *, controls: bool = True) -> Case:
    """Common parts of all cases; each replaces its policy and its containers."""
    return Case(NATIVE, [], DURATION, slice_, MAX_INST, costs=COSTS, controls=controls)


def mixes(harness: Harness, common: Case) -> Iterator[Finding]:
    """Every policy with every number of containers in every mix, and each alone."""
    for policy in policies():
        for kind in ("greedy", "idle", "bursty", "whole kernels"):
            for count in range(1 if kind == "greedy" else 2, MAX_INST + 1):
                case = replace(common, policy=policy, containers=mix(kind, policy, count))
                yield from judge(case, harness.run(case), f"{count} {kind}")
                if policy in WORKING and kind == "whole kernels":
                    by_channels = replace(case, time_slices=False)
                    yield from judge(by_channels, harness.run(by_channels), f"{count} {kind} by channels")


def unevenly(harness: Harness, common: Case) -> Iterator[Finding]:
    """Light containers beside heavy ones: each has as many switches in a round as the others."""
    for policy in (one for one in DIVIDED if one not in BY_NUMBER):
        for found in UNEVEN:
            containers = [Container(weight, greedy(index)) for index, weight in enumerate(found)]
            case = replace(common, policy=policy, containers=containers)
            weights_ = ":".join(map(str, found))
            yield from judge(case, harness.run(case), f"{weights_} uneven")
            if policy in WORKING:
                by_channels = replace(case, time_slices=False)
                yield from judge(by_channels, harness.run(by_channels), f"{weights_} uneven by channels")


def priority(harness: Harness, common: Case) -> Iterator[Finding]:
    """One container of high priority beside two others, under every policy that knows priority."""
    # A slice more or less would drown in what the calls of the driver take; mixes() has them.
    costs, slice_ = replace(COSTS, command=0), common.slice
    for policy in DIVIDED:
        for ratio in RATIOS:
            others = [Container(1, greedy(index)) for index in (1, 2)]
            three = [Container(1, greedy(0), highprio=True), *others]
            case = replace(common, policy=policy, containers=three, max_inst=3, prio_ratio=ratio, costs=costs)
            result = harness.run(case)
            high, *low = (one.used for one in result.containers)
            off = abs(high - DURATION * ratio / 100) / slice_
            yield Finding(policy, f"priority {ratio}: slices off in 10 s", off, 1.0)
            apart = abs(low[0] - low[1])
            excess = max(0.0, apart - 2 * slice_) / max(low)
            yield Finding(policy, f"priority {ratio}: others apart", excess, SHARE_BOUND)
            burst = replace(case, containers=[Container(1, bursty(0), highprio=True), *others])
            waited = harness.run(burst).containers[0].waited
            limit = (slice_ + costs.switch + costs.save) / slice_
            yield Finding(policy, f"priority {ratio}: slices waited", waited / slice_, limit)
