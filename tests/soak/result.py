# SPDX-License-Identifier: Apache-2.0
"""What a soak found: its table, and what is wrong with it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.soak.plan import Counts

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = (
    "# Soaks\n\nThe newest run of `python -m tests.soak ENGINE` on each engine; git has the earlier ones.\n"
)
# Looks at memory, in order. Within a pair nothing but the work of the soak lies between both.
LOOKS = ("registrations 10 %", "registrations", "lives 10 %", "lives 50 %", "end")
PAIRS = (("registrations 10 %", "registrations"), ("lives 10 %", "lives 50 %"), ("lives 10 %", "end"))


@dataclass
class Result:
    """memory: KiB by what has it, for each look. left: what is still there at the end."""

    engine: str
    counts: Counts
    allowed_kib: int
    refused: int = 0
    upgrades: int = 0
    deaths: int = 0
    seconds: float = 0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def faults(self) -> Iterator[str]:
        """Yield a line for each thing that was to be otherwise."""
        yield from (f"left at the end: {one}" for one in self.left)
        if self.refused != self.counts.registrations // 10:
            yield f"{self.refused} registrations were refused, expected {self.counts.registrations // 10}"
        for before, after in PAIRS:
            for name, kib in self.memory[after].items():
                grown = kib - self.memory[before].get(name, kib)
                if grown > self.allowed_kib:
                    yield f"memory of {name} grew by {grown} KiB from {before} to {after}"

    def table(self) -> str:
        """Return it for people."""
        counts = self.counts
        done = f"{counts.registrations:,} registrations ({self.refused:,} refused), {counts.lives:,} lives"
        changes = f"{self.upgrades} upgrades, {self.deaths} deaths of the engine"
        lines = [f"{done} of containers, {changes}, in {self.seconds:.0f} s.", ""]
        lines += [f"| KiB of | {' | '.join(LOOKS)} |", "|---|" + "---|" * len(LOOKS)]
        for name in dict.fromkeys(name for look in LOOKS for name in self.memory[look]):
            lines.append(
                f"| {name} | {' | '.join(str(self.memory[look].get(name, '-')) for look in LOOKS)} |"
            )
        faults = list(self.faults())
        return "\n".join([*lines, "", *(faults or ["Nothing is left, and memory is flat."])])

    def write(self, file: Path = RESULTS) -> None:
        """Put it in place of this engine's earlier result."""
        git = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short=12", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        text = file.read_text() if file.exists() else HEAD
        kept = re.sub(rf"\n## {self.engine}\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL)
        date = datetime.now(UTC).date()
        file.write_text(f"{kept.rstrip()}\n\n## {self.engine}\n\nCommit {commit}, {date}. {self.table()}\n")
