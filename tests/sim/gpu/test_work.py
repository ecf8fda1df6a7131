# SPDX-License-Identifier: Apache-2.0
"""The engines of the simulated card: what holds whatever is launched and called."""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shares.binding import MS, SECOND, US
from tests.sim.gpu.work_card import NEVER, UNIT, Card, Segment, library

__all__ = ["library"]


@dataclass(frozen=True)
class Op:
    """Something that is done to a card, so many nanoseconds after what came before it."""

    after: int
    kind: str
    target: int
    length: int
    grain: int


KINDS = (
    *["submit"] * 6,
    "disable",
    "only",
    "enable",
    "off",
    "on",
    "preempt",
    "slice",
    "remove_channel",
    "remove_group",
    "channel",
    "group",
)
OPS = st.lists(
    st.builds(
        Op,
        st.integers(0, 400 * US),
        st.sampled_from(KINDS),
        st.integers(0, 15),
        st.integers(1, 500 * US),
        st.sampled_from([0, 1, 1, 7 * US, 100 * US]),
    ),
    min_size=20,
    max_size=60,
)
COSTS = st.fixed_dictionaries(
    {"switch": st.integers(0, 60 * US), "save": st.integers(0, 30 * US), "command": st.integers(0, 20 * US)}
)


QUEUE = 6


class Bench:
    """A card of two engines under random calls, and what is known of it."""

    def __init__(self, library: ctypes.CDLL, costs: dict[str, int]) -> None:
        """Make a card with a group on each engine."""
        self.card = Card(library, engines=2, **costs)
        self.groups = [self.card.group(engine) for engine in range(2)]
        self.group_of = {self.card.channel(group, QUEUE): group for group in self.groups}
        self.tag = 0
        self.accepted: dict[int, list[int]] = {}

    def do(self, op: Op) -> None:
        """Do one of the things, if there is something to do it to."""
        card = self.card
        if op.kind == "group":
            self.groups.append(card.group(op.target % 2))
        elif op.kind == "channel" and self.groups:
            group = self.groups[op.target % len(self.groups)]
            self.group_of[card.channel(group, QUEUE)] = group
        elif op.kind in ("off", "on", "preempt", "slice", "remove_group"):
            self.on_group(op)
        elif self.group_of:
            channels = sorted(self.group_of)
            self.on_channel(op, channels[op.target % len(channels)])

    def on_group(self, op: Op) -> None:
        if not self.groups:
            return
        group = self.groups[op.target % len(self.groups)]
        if op.kind == "remove_group":
            for channel in [name for name, of in self.group_of.items() if of == group]:
                self.forget(channel)
            self.groups.remove(group)
            assert self.card.remove_group(group) == 0
        elif op.kind == "preempt":
            assert self.card.preempt(group) == 0
        elif op.kind == "slice":
            assert self.card.timeslice(group, op.length // US) == 0
        else:
            assert self.card.schedule(group, op.kind == "on") == 0

    def on_channel(self, op: Op, channel: int) -> None:
        card = self.card
        match op.kind:
            case "submit":
                full = card.of_channel(channel).queued == QUEUE
                self.tag += 1
                assert card.submit(channel, op.length, op.grain, self.tag) == (-errno.EAGAIN if full else 0)
                if not full:
                    self.accepted.setdefault(channel, []).append(self.tag)
            case "disable":
                assert card.disable(channel) == 0
            case "only":
                assert card.disable(channel, only_scheduling=True) == 0
            case "enable":
                assert card.enable(channel) == 0
            case "remove_channel":
                self.forget(channel)
                assert card.remove_channel(channel) == 0

    def forget(self, channel: int) -> None:
        """A channel goes: what it completed is settled, the rest is lost."""
        done = [one.tag for one in self.card.ended if one.channel == channel]
        mine = self.accepted.pop(channel, [])
        assert [tag for tag in done if tag in set(mine)] == mine[: self.card.of_channel(channel).completed]
        del self.group_of[channel]

    def check(self) -> None:
        """What holds at any time."""
        card = self.card
        for number in range(2):
            engine = card.engine(number)
            assert engine.busy + engine.switching + engine.idle == card.now
        for group in self.groups:
            figures = card.of_group(group)
            assert figures.submitted == figures.completed + figures.cancelled + figures.queued
        for channel, tags in self.accepted.items():
            mine = card.of_channel(channel)
            assert mine.submitted == mine.completed + mine.queued == len(tags)
            ended = [one.tag for one in card.ended if one.tag in set(tags)]
            assert ended == tags[: mine.completed]


@given(ops=OPS, costs=COSTS)
@settings(max_examples=200)
def test_time_and_work_are_conserved(library: ctypes.CDLL, ops: list[Op], costs: dict[str, int]) -> None:
    """Busy, switching and idle are all time; no work is lost or comes twice; a channel's comes in order."""
    bench = Bench(library, costs)
    for op in ops:
        bench.card.advance(bench.card.now + op.after)
        bench.do(op)
        bench.check()
    for channel in bench.group_of:
        bench.card.enable(channel)
    for group in bench.groups:
        bench.card.schedule(group, True)
    bench.card.advance(bench.card.now + SECOND)
    bench.check()
    assert all(bench.card.of_group(group).queued == 0 for group in bench.groups)
    assert bench.card.next == NEVER


@given(ops=OPS, costs=COSTS, cuts=st.lists(st.integers(1, 300 * US), max_size=40))
@settings(max_examples=60)
def test_steps_of_time_do_not_matter(
    library: ctypes.CDLL, ops: list[Op], costs: dict[str, int], cuts: list[int]
) -> None:
    """A card that is advanced in many small steps does what one does that is advanced in large ones."""
    outcomes = []
    for small in (False, True):
        bench = Bench(library, costs)
        for op in ops:
            until = bench.card.now + op.after
            for cut in cuts if small else []:
                bench.card.advance(min(until, bench.card.now + cut))
            bench.card.advance(until)
            bench.do(op)
        bench.card.advance(bench.card.now + SECOND)
        outcomes.append([(one.tag, one.started, one.ended) for one in bench.card.ended])
    assert outcomes[0] == outcomes[1]


@given(
    weights=st.lists(st.integers(1, 3000), min_size=2, max_size=6),
    lengths=st.lists(st.integers(100 * US, 900 * US), min_size=6, max_size=6),
    grains=st.lists(st.sampled_from([0, 1, 10 * US]), min_size=6, max_size=6),
    costs=COSTS,
)
@settings(max_examples=80)
def test_slices_are_respected(
    library: ctypes.CDLL, weights: list[int], lengths: list[int], grains: list[int], costs: dict[str, int]
) -> None:
    """Among groups that always have work turns go round, and each is a slice up to what cannot be cut."""
    card = Card(library, **costs)
    groups = [card.group(us=us) for us in weights]
    for index, group in enumerate(groups):
        card.program(card.channel(group), [(lengths[index], grains[index], 0, 1)])
    card.advance(costs["command"])
    each = costs["switch"] + costs["save"]  # which may be longer than all slices
    stints = joined(card.trace(card.now + 6 * sum(card.of_group(group).slice + each for group in groups)))
    order = [stint.group for stint in stints]
    first = groups.index(order[0] or 0)
    assert order == [groups[(first + step) % len(groups)] for step in range(len(order))]
    for stint in stints[1:-1]:
        index = groups.index(stint.group or 0)
        slice_ = card.of_group(groups[index]).slice
        longest = min(grains[index] or lengths[index], lengths[index]) - 1
        assert slice_ <= stint.end - stint.start <= slice_ + longest


def joined(trace: list[Segment]) -> list[Segment]:
    """Return the stints of groups, each one segment."""
    out: list[Segment] = []
    for segment in trace:
        if segment.group is None:
            continue
        goes_on = out and out[-1].group == segment.group and out[-1].end == segment.start
        start = out.pop().start if goes_on else segment.start
        out.append(Segment(start, segment.end, segment.channel, segment.group))
    return out


@given(
    length=st.integers(200 * US, 3 * MS),
    grain=st.sampled_from([0, 1, 50 * US]),
    costs=COSTS,
    off=st.lists(st.integers(1, 3 * MS), min_size=2, max_size=8),
    others=st.booleans(),
)
@settings(max_examples=150)
def test_nobody_runs_while_disabled(
    library: ctypes.CDLL, length: int, grain: int, costs: dict[str, int], off: list[int], others: bool
) -> None:
    """A disabled channel runs to its next boundary and no further, and nothing of it is lost."""
    card = Card(library, **costs)
    channel = card.channel(card.group())
    program = card.program(channel, [(length, grain, 0, 1)])
    if others:
        card.program(card.channel(card.group()), [(77 * US, 1, 0, 1)])
    for at in off:
        card.advance(card.now + at)
        card.disable(channel)
        card.advance(card.now + costs["command"])
        before, now = card.of_channel(channel).busy, card.now
        rest = min(grain or length, length)
        card.advance(now + rest - 1)
        stopped = card.of_channel(channel).busy
        assert stopped - before < rest
        card.advance(card.now + at)
        assert card.of_channel(channel).busy == stopped
        card.enable(channel)
    card.advance(card.now + 20 * MS)
    figures = card.of_channel(channel)
    assert figures.busy // length - 1 <= figures.completed <= figures.busy // length
    assert card.rounds(program) >= figures.completed


@given(us=st.one_of(st.integers(0, 600), st.integers(0, 2**24)))
@settings(max_examples=300)
def test_slices_are_what_the_hardware_has(library: ctypes.CDLL, us: int) -> None:
    """A slice becomes the longest the hardware has that is not above it; 0 becomes the shortest."""
    possible = {timeout << scale for timeout in range(1, 256) for scale in range(16)}
    best = max((one for one in possible if one <= us), default=1)
    assert library.work_slice(ctypes.c_uint64(us)) == best * UNIT
