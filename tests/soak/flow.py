# SPDX-License-Identifier: Apache-2.0
"""Steps of a soak with either engine, by chance of a seed, and its findings."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

MIB = 1 << 20
SIZES = (64, 256, 1024)  # MiB of a slice; a life takes 32 of them
# Registrations that are refused, a tenth of all, and the errors.
REFUSED = {
    "gpu=7:67108864": "ENOENT",
    f"gpu=0:{15 << 30}": "ENOMEM",
    f"gpu=0:{1 << 50}": "EINVAL",
    "gpu=zero": "EINVAL",
}
# ends: allocates and frees; over: is refused what exceeds its slice; killed: while it has memory of the card;
# removed: its registration is taken away then.
LIVES = ("ends", "over", "killed", "removed")
AT_ONCE = 4
BATCH = 1000
# Looks at memory; in a pair nothing but the soak's work lies between both.
LOOKS = ("registrations 10 %", "registrations", "lives 10 %", "lives 50 %", "end")
PAIRS = ((LOOKS[0], LOOKS[1]), (LOOKS[2], LOOKS[3]), (LOOKS[2], LOOKS[4]))
RESULTS = Path(__file__).resolve().parents[2] / "tests/soak/RESULTS.md"
HEAD = "# Soaks\n\nThe newest run of `python -m tests.soak ENGINE` on each engine; git has the earlier ones."
Registration = tuple[int, str, str]  # number, request, and error, which is empty where it is made
Life = tuple[int, str, int]  # number, kind, and bytes of the slice


@dataclass(frozen=True)
class Counts:
    """Numbers of events while containers live. changes: upgrades of the engine, and deaths if it can die."""

    registrations: int = 100_000
    lives: int = 10_000
    changes: int = 10


class Engine(Protocol):
    """The engine under soak. A failure of any step that is not asked for raises.

    register() also removes, and returns how many were refused; change() upgrades the engine and returns how
    often it died; memory() is KiB by what has them; left() is what is there and was not before.
    """

    def register(self, asked: Sequence[Registration]) -> int: ...
    def begin(self, lives: Sequence[Life]) -> None: ...
    def end(self, lives: Sequence[Life]) -> None: ...
    def change(self) -> int: ...
    def memory(self) -> dict[str, int]: ...
    def left(self) -> list[str]: ...


@dataclass
class Result:
    """memory: KiB by what has it, for each look."""

    engine: str
    counts: Counts
    allowed_kib: int = 1024
    refused: int = 0
    upgrades: int = 0
    deaths: int = 0
    seconds: float = 0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def faults(self) -> Iterator[str]:
        yield from (f"left at the end: {one}" for one in self.left)
        if self.refused != self.counts.registrations // 10:
            yield f"{self.refused} registrations were refused, expected a tenth"
        for before, after in PAIRS:
            for name, kib in self.memory[after].items():
                grown = kib - self.memory[before].get(name, kib)
                if grown > self.allowed_kib:
                    yield f"memory of {name} grew by {grown} KiB from {before} to {after}"

    def table(self) -> str:
        counts = self.counts
        done = f"{counts.registrations:,} registrations ({self.refused:,} refused), {counts.lives:,} lives"
        changes = f"{self.upgrades} upgrades, {self.deaths} deaths of the engine"
        lines = [f"{done} of containers, {changes}, in {self.seconds:.0f} s.", ""]
        lines += [f"| KiB of | {' | '.join(LOOKS)} |", "|---|" + "---|" * len(LOOKS)]
        for name in dict.fromkeys(name for look in LOOKS for name in self.memory[look]):
            lines.append(
                f"| {name} | {' | '.join(str(self.memory[look].get(name, '-')) for look in LOOKS)} |"
            )
        return "\n".join([*lines, "", *(list(self.faults()) or ["Nothing is left, and memory is flat."])])

    def write(self, file: Path = RESULTS) -> None:
        """Put it in place of this engine's earlier result."""
        git = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short=12", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        text = file.read_text() if file.exists() else HEAD
        kept = re.sub(rf"\n## {self.engine}\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL).rstrip()
        date = datetime.now(UTC).date()
        file.write_text(f"{kept}\n\n## {self.engine}\n\nCommit {commit}, {date}. {self.table()}\n")


def soak(engine: Engine, name: str, counts: Counts, seed: int) -> Result:
    began, result, chance = time.monotonic(), Result(name, counts), random.Random(seed)  # noqa: S311 - a plan
    half = counts.lives // 2
    # Changes come after half of all, when memory has been looked at in a process of the same age.
    changes = [half + half * number // (counts.changes + 1) for number in range(1, counts.changes + 1)]
    for look, last in zip(LOOKS, (counts.registrations // 10, counts.registrations), strict=False):
        first = 0 if look == LOOKS[0] else counts.registrations // 10
        for at in range(first, last, BATCH):
            result.refused += engine.register(_registrations(at, min(at + BATCH, last), chance))
        _look(result, look, engine)
    first = 0
    for look, last in zip(LOOKS[2:], (counts.lives // 10, half, counts.lives), strict=True):
        for at in range(first, last, AT_ONCE):
            numbers = range(at, min(at + AT_ONCE, last))
            group = [(one, chance.choice(LIVES), chance.choice(SIZES) * MIB) for one in numbers]
            engine.begin(group)
            for _ in set(numbers).intersection(changes):
                result.deaths += engine.change()
                result.upgrades += 1
            engine.end(group)
        first = last
        if look == LOOKS[-1]:
            result.left = engine.left()
        _look(result, look, engine)
    result.seconds = time.monotonic() - began
    return result


def _look(result: Result, look: str, engine: Engine) -> None:
    result.memory[look] = engine.memory()
    print(f"{look}: {result.memory[look]}", file=sys.stderr, flush=True)


def _registrations(first: int, last: int, chance: random.Random) -> list[Registration]:
    made = [(f"gpu=0:{size * MIB}:{weight}", "") for size in SIZES for weight in (1, 2, 3)]
    refused = list(REFUSED.items())
    return [(one, *chance.choice(refused if one % 10 == 9 else made)) for one in range(first, last)]
