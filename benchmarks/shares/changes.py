# SPDX-License-Identifier: Apache-2.0
"""Changes under load: containers come and go, weights, priorities and settings change while all have work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.shares.binding import (
    US,
    Case,
    Container,
    Harness,
    Running,
)
from benchmarks.shares.cases import (
    MAX_INST,
    Finding,
    by_card,
    dues,
    greedy,
    measured,
    units,
    weights,
)
from tests.policies import BY_NUMBER, DIVIDED, NATIVE, WORKING

COUNTS = range(2, MAX_INST + 1)
RATIO, OTHER_RATIO = 80, 50
MODES = tuple((one, slices) for one in DIVIDED for slices in ((True, False) if one in WORKING else (True,)))
WARM = 3  # rounds before a change
PHASES = (1, 3, 6)  # sevenths of a round, after which it comes: somewhere in a turn
ROUNDS = 10  # in which shares are compared
LONG_ENOUGH = 200  # rounds
SETTLING = 2  # rounds after a change that may be as they are

# In turns of the container, over ROUNDS: 1 % of the share. The card's own time slices begin and end anywhere
# within the window; high priority may be a slice behind at its begin and a slice ahead at its end.
CHANNELS_BOUND, SLICES_BOUND, PRIORITY_BOUND = 0.1, 1.0, 2.0
MARKS = {CHANNELS_BOUND: "", SLICES_BOUND: ", card", PRIORITY_BOUND: ", priority"}
# In rounds, the longer of those before and after: a change delays no turn by more than a round.
WAIT_BOUND = 2.0

Apply = Callable[[Running], None]


@dataclass(frozen=True)
class Scenario:
    """A case, and the change that is applied to it."""

    what: str
    case: Case
    apply: Apply
    phase: int


def round_of(running: Running) -> int:
    """Length of a round, of the side that is served more slowly."""
    longest = 0.0
    shares = dues(running)
    for slot, one in running.members.items():
        if shares[slot]:
            longest = max(longest, units(running.case.policy, one) * running.case.slice / shares[slot])
    return round(longest)


def run(harness: Harness, scenario: Scenario) -> Iterator[Finding]:
    """Run one scenario and say how it went."""
    with Running(harness, scenario.case) as running:
        before = round_of(running)
        running.advance(WARM * before + before * scenario.phase // 7)
        launched = {slot: running.figures(slot).submitted for slot in running.members}
        scenario.apply(running)
        after = round_of(running)
        running.advance(SETTLING * after)
        off = turns_off(running, ROUNDS * after)
        waited = max(running.figures(slot).starved for slot in running.members) / max(before, after)
        left = lost(running, launched, after)
        policy, bound = running.case.policy, bound_of(running)
    yield Finding(policy, f"{scenario.what}: turns off after a change{MARKS[bound]}", off, bound)
    yield Finding(policy, f"{scenario.what}: rounds waited in a change", waited, WAIT_BOUND)
    yield Finding(policy, f"{scenario.what}: kernels lost in a change", float(left), 0.0)


def turns_off(running: Running, window: int) -> float:
    """Largest distance of a container from its share in a window, in turns of its own."""
    had, whole = measured(running, window)
    turn = {
        slot: units(running.case.policy, one) * running.case.slice for slot, one in running.members.items()
    }
    # A container without a turn has to have had nothing.
    return max(abs(had[slot] - whole * due) / (turn[slot] or 1) for slot, due in dues(running).items())


def bound_of(running: Running) -> float:
    if any(one.highprio for one in running.members.values()):
        return PRIORITY_BOUND
    return SLICES_BOUND if by_card(running) else CHANNELS_BOUND


def lost(running: Running, launched: dict[int, int], round_: int) -> int:
    """Kernels from before a change that never end. A channel's kernels end in their order."""
    for _ in range(LONG_ENOUGH):
        figures = {slot: running.figures(slot) for slot in running.members}
        missing = sum(max(0, launched.get(slot, 0) - one.completed) for slot, one in figures.items())
        if not missing:
            break
        running.advance(round_)
    return int(missing + sum(one.cancelled for one in figures.values()))


def containers(policy: int, count: int) -> list[Container]:
    return [Container(weight, greedy(index)) for index, weight in enumerate(weights(policy, count))]


def other_weight(members: list[Container]) -> int | None:
    """Return another weight for the first one, that the card can give out; None: there is none."""
    left = MAX_INST - sum(one.weight for one in members)
    if left:
        return members[0].weight + min(3, left)
    return members[0].weight - 1 or None


def other_slice(slice_: int) -> int:
    """Return half of it, where the scheduler takes that."""
    return slice_ // 2 if slice_ >= 200 * US else slice_ * 2


def changes(case: Case) -> Iterator[tuple[str, Case, Apply]]:
    """Each kind of change: its name, the case before it, and its action."""
    members = list(case.containers)
    last, weight = len(members) - 1, other_weight(members)
    yield "join", replace(case, containers=members[:-1]), lambda on: on.join(last, members[-1])
    yield "leave", case, lambda on: on.leave(last)
    if case.policy not in BY_NUMBER and weight is not None:
        yield "weight", case, lambda on: on.change(0, weight, highprio=False)
    high = replace(case, containers=[replace(members[0], highprio=True), *members[1:]])
    yield "prio_ratio", high, lambda on: on.set(replace(on.case, prio_ratio=OTHER_RATIO))
    yield "priority", case, lambda on: on.change(0, members[0].weight, highprio=True)
    yield "slice", case, lambda on: on.set(replace(on.case, slice=other_slice(case.slice)))
    for policy in DIVIDED:
        if policy != case.policy:
            yield f"from policy {case.policy}", case, to_policy(policy)
    yield "from policy 5", replace(case, policy=NATIVE), to_policy(case.policy)


def to_policy(policy: int) -> Apply:
    return lambda on: on.set(replace(on.case, policy=policy))


def findings(harness: Harness, common: Case) -> Iterator[Finding]:
    """Every change, under every policy that divides time, with 2 to 25 containers."""
    for policy, time_slices in MODES:
        for count in COUNTS:
            members = containers(policy, count)
            case = replace(
                common, policy=policy, containers=members, prio_ratio=RATIO, time_slices=time_slices
            )
            by_channels = " by channels" if policy in WORKING and not time_slices else ""
            for what, before, apply in changes(case):
                for phase in PHASES:
                    yield from run(harness, Scenario(f"{count} {what}{by_channels}", before, apply, phase))
