# SPDX-License-Identifier: Apache-2.0
"""What a soak does: how often, with which ends, by chance of a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

MIB = 1 << 20
SIZES = (64, 256, 1024)  # MiB of a slice; a life takes 32 of them
# Registrations that are refused, a tenth of all, and in which words.
REFUSED = {
    "gpu=7:67108864": "ENOENT",
    f"gpu=0:{15 << 30}": "ENOMEM",
    f"gpu=0:{1 << 50}": "EINVAL",
    "gpu=0:0": "EINVAL",
    "gpu=zero": "EINVAL",
}
# ends: allocates, frees and ends; over: is refused what exceeds its slice; killed: with memory of the card;
# removed: its registration is taken away while it has memory.
LIVES = ("ends", "over", "killed", "removed")


@dataclass(frozen=True)
class Counts:
    """How often. changes: upgrades of the engine, and deaths of it where it can die."""

    registrations: int = 100_000
    lives: int = 10_000
    changes: int = 10

    def part(self, of: int) -> Counts:
        """Return a part of it, with all of the changes."""
        return Counts(self.registrations // of, self.lives // of, self.changes)

    def change_after(self) -> list[int]:
        """Return the numbers of the lives in which the engine changes, in the second half of all."""
        half = self.lives // 2
        return [half + half * number // (self.changes + 1) for number in range(1, self.changes + 1)]


def registrations(first: int, last: int, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield what each asks for, and the name of its error, empty for one that is made."""
    for number in range(first, last):
        if number % 10 == 9:
            yield chance.choice(list(REFUSED.items()))
        else:
            yield f"gpu=0:{chance.choice(SIZES) * MIB}:{chance.randint(1, 3)}", ""


def lives(first: int, last: int, chance: random.Random) -> Iterator[tuple[int, str, int]]:
    """Yield number, kind and bytes of each."""
    for number in range(first, last):
        yield number, chance.choice(LIVES), chance.choice(SIZES) * MIB
