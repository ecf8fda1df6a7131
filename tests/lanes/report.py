# SPDX-License-Identifier: Apache-2.0
"""What the tests of a lane say of themselves: how they ended, the slowest ones, the seconds of each folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SLOWEST = 20


@dataclass(frozen=True)
class Summary:
    """How tests ended, and the seconds of each, set-up and tidying included."""

    outcomes: Mapping[str, str]
    seconds: Mapping[str, float]

    @property
    def passed(self) -> int:
        return self.count("passed")

    @property
    def failed(self) -> int:
        return self.count("failed")

    @property
    def skipped(self) -> int:
        return self.count("skipped")

    def count(self, outcome: str) -> int:
        return sum(found == outcome for found in self.outcomes.values())


def read_reports(folder: Path) -> Summary:
    """Read what every pytest of a lane has left in a folder. A test that ran twice has the worse of its outcomes."""
    outcomes: dict[str, str] = {}
    seconds: Counter[str] = Counter()
    for path in sorted(folder.glob("*.json")):
        for name, outcome, took in json.loads(path.read_text()):
            if outcomes.get(name) != "failed":
                outcomes[name] = outcome
            seconds[name] += took
    return Summary(outcomes, seconds)


def tell(summary: Summary) -> Iterator[str]:
    """Yield the lines that end a lane: the slowest tests, the folders, and the failures."""
    yield f"the {SLOWEST} slowest tests, in seconds:"
    slowest = sorted(summary.seconds.items(), key=lambda row: -row[1])[:SLOWEST]
    yield from (f"{took:8.1f}  {name}" for name, took in slowest)
    yield "the folders, in seconds of their tests:"
    folders: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for name, took in summary.seconds.items():
        folders[folder_of(name)] += took
        tests[folder_of(name)] += 1
    yield from (f"{took:8.1f}  {name}, {tests[name]} tests" for name, took in folders.most_common())
    yield from (f"failed: {name}" for name, outcome in sorted(summary.outcomes.items()) if outcome == "failed")


def folder_of(name: str) -> str:
    """Return the folder below tests/ that a test belongs to."""
    parts = name.split("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
