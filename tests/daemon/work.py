# SPDX-License-Identifier: Apache-2.0
"""Containers that keep a simulated card busy, and what of it each has had: by the card's own count."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.daemon.harness import MIB
from tests.integration.commands import eventually

if TYPE_CHECKING:
    from tests.daemon.harness import Daemon, Sliced

KERNEL = "300us"
BUSY = re.compile(r"^busy pid=\d+ group=\S+ completed=\d+ busy=(\d+) elapsed=(\d+) status=0x0$")


@dataclass(frozen=True, eq=False)
class near:  # noqa: N801 - reads as pytest.approx does
    """Compare with a share of the card.

    Nobody gets more. Less is left when changes of channels are slow, as on a machine that has more to do.
    """

    share: float

    def __eq__(self, other: object) -> bool:
        """Tell whether a measured share is this one."""
        assert isinstance(other, float)
        return self.share * 0.8 - 0.01 <= other <= self.share * 1.1 + 0.02

    def __hash__(self) -> int:
        """Nothing is looked up by it."""
        return 0


@dataclass(slots=True)
class Hand:
    """One container that works."""

    sliced: Sliced
    lines: int  # of one phase

    def share(self) -> float:
        """Return what of the card it had in its next phase."""
        total = 0.0
        for _ in range(self.lines):
            line = self.sliced.line("busy")
            found = BUSY.match(line.strip())
            assert found is not None, line
            total += int(found[1]) / int(found[2])
        return total


def release(sliced: Sliced) -> None:
    """Let one go on that waits for the end of its input."""
    stdin, sliced.process.stdin = sliced.process.stdin, None
    assert stdin is not None
    stdin.close()


class Crew:
    """Containers on card 0 that begin to work at one moment."""

    def __init__(
        self, daemon: Daemon, policy: int, *, phases: int = 1, seconds: float = 2.0, alone: bool = True
    ) -> None:
        """Each works for so many phases, one after the other."""
        if alone:
            eventually(
                lambda: daemon.instances() == [], "the containers before have gone", instead=daemon.left
            )
        self._daemon = daemon
        self.hands: list[Hand] = []
        self._phases = phases
        self._ms = int(seconds * 1000)
        self._policy = policy
        self.policy(policy)

    @classmethod
    def at_work(cls, daemon: Daemon, policy: int, *weights: int, **options: Any) -> Crew:
        """Return one of containers with these weights that has begun; options: as of a new one."""
        crew = cls(daemon, policy, **options)
        for weight in weights:
            crew.add(weight)
        crew.begin()
        return crew

    def policy(self, policy: int) -> None:
        self._daemon.write("0/policy", f"{policy}\n")

    def weigh(self, hand: Hand, weight: int) -> None:
        self._daemon.write(f"0/{hand.sliced.id[:12]}/weight", f"{weight}\n")

    def add(
        self,
        weight: int = 1,
        *words: str,
        high: bool = False,
        processes: int = 0,
        groups: int = 1,
        kernel: str = KERNEL,
    ) -> Hand:
        """Start one; words are steps of the probe after its groups are made."""
        spec = f"gpu=0:{2048 * MIB}:{weight}:{int(high)}"
        made = ["group"] * groups if not processes else []
        busy = f"busy={self._ms}ms:{kernel}" + (f":1ns:{processes}" if processes else "")
        steps = [*made, *words, "hold", *[busy] * self._phases]
        hand = Hand(self._daemon.slice(len(self.hands) + 1, spec, *steps), processes or groups)
        self.hands.append(hand)
        return hand

    def begin(self) -> None:
        """Let all work, once all have come so far. A weight above 1 moves policy 1, so put it back before."""
        for hand in self.hands:
            hand.sliced.line("hold")
        self.policy(self._policy)
        for hand in self.hands:
            release(hand.sliced)

    def shares(self) -> list[float]:
        """Return what each had in the next phase."""
        return [hand.share() for hand in self.hands]
