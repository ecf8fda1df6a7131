# SPDX-License-Identifier: Apache-2.0
"""Containers that keep a simulated card busy, and the time of each: by the card's own count.

Each works for one phase after the other. On a machine that has more to do a phase may be short of changes of
channels, so tests wait for one that has the shares, as for any other event.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.daemon.harness import MIB

if TYPE_CHECKING:
    from tests.daemon.harness import Daemon, Sliced

KERNEL = "300us"
PHASE = f"busy=1s:{KERNEL}"
PHASES = 60  # more than any test waits for: programs are killed
PATIENCE = 10  # phases until shares are those of the policy
BUSY = re.compile(r"^busy pid=\d+ group=\S+ completed=\d+ busy=(\d+) elapsed=(\d+) status=0x0$")


@dataclass(frozen=True, eq=False)
class near:  # noqa: N801 - reads as pytest.approx does
    """Compare with a share of the card; nothing is near to nothing alone.

    No container gets more. Less is left when changes of channels are slow, as on a machine that has more to
    do.
    """

    share: float

    def __eq__(self, other: object) -> bool:
        """Tell whether a measured share is this one."""
        assert isinstance(other, float)
        if self.share == 0:
            return other == 0
        return self.share * 0.8 - 0.01 <= other <= self.share * 1.1 + 0.02

    def __hash__(self) -> int:
        """Nothing is looked up by it."""
        return 0


@dataclass(slots=True)
class Hand:
    """One container that works."""

    sliced: Sliced
    lines: int  # of one phase
    busy: int = 0  # ns in all phases so far

    def share(self) -> float:
        """Return what of the card it had in its next phase."""
        total = 0.0
        for _ in range(self.lines):
            line = self.sliced.line("busy")
            found = BUSY.match(line.strip())
            assert found is not None, line
            self.busy += int(found[1])
            total += int(found[1]) / int(found[2])
        return total


def count_of(daemon: Daemon, name: str) -> int:
    return int(daemon.status()["engine"][name])


def rate_of(daemon: Daemon, name: str) -> float:
    """Return by how much a count grows, in each second that it takes to look."""
    began, before = time.monotonic(), count_of(daemon, name)
    time.sleep(1)
    return (count_of(daemon, name) - before) / (time.monotonic() - began)


def release(sliced: Sliced) -> None:
    stdin, sliced.process.stdin = sliced.process.stdin, None
    assert stdin is not None
    stdin.close()


class Crew:
    """Containers on card 0 that begin to work at one moment."""

    def __init__(self, daemon: Daemon, policy: int, *, alone: bool = True) -> None:
        """Make one without containers; alone: end those that there are."""
        if alone:
            daemon.end_slices()
        self._daemon = daemon
        self.hands: list[Hand] = []
        self._policy = policy
        self.policy(policy)

    @classmethod
    def at_work(cls, daemon: Daemon, policy: int, *weights: int) -> Crew:
        crew = cls(daemon, policy)
        for weight in weights:
            crew.add(weight)
        crew.begin()
        return crew

    def policy(self, policy: int) -> None:
        self._daemon.write("0/policy", f"{policy}\n")

    def weigh(self, hand: Hand, weight: int) -> None:
        self._daemon.write(f"0/{hand.sliced.id[:12]}/weight", f"{weight}\n")

    def add(
        self, weight: int = 1, *words: str, high: bool = False, processes: int = 0, groups: int = 1
    ) -> Hand:
        """Start one; words are steps of the probe after its groups are made."""
        spec = f"gpu=0:{2048 * MIB}:{weight}:{int(high)}"
        made = ["group"] * groups if not processes else []
        phase = f"{PHASE}:1ns:{processes}" if processes else PHASE
        sliced = self._daemon.slice(len(self.hands) + 1, spec, *made, *words, "hold", *[phase] * PHASES)
        self.hands.append(Hand(sliced, processes or groups))
        return self.hands[-1]

    def begin(self) -> None:
        """Let all work, once all have come so far. A weight above 1 moves policy 1, so put it back before."""
        for hand in self.hands:
            hand.sliced.line("hold")
        self.policy(self._policy)
        for hand in self.hands:
            release(hand.sliced)

    def shares(self) -> list[float]:
        return [hand.share() for hand in self.hands]

    def await_phase(self, condition: Callable[[list[float]], bool], what: str, *, times: int = 1) -> None:
        """Wait for so many phases in a row with shares that fit; fail by name when they do not come."""
        had: list[list[float]] = []
        while len(had) < PATIENCE:
            had.append(self.shares())
            if len(had) >= times and all(condition(one) for one in had[-times:]):
                return
        raise AssertionError(f"{what}: not in {times} of {PATIENCE} phases: {had}")

    def await_shares(self, *expected: float, times: int = 1) -> None:
        wanted = [near(share) for share in expected]
        self.await_phase(lambda had: had == wanted, f"the shares {expected}", times=times)
