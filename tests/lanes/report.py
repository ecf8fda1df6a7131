# SPDX-License-Identifier: Apache-2.0
"""Results of a lane's tests, the slowest ones, and each folder's time."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SLOWEST = 20


@dataclass(frozen=True)
class Summary:
    """Results of tests, and the seconds of each, set-up and tidying included."""

    outcomes: Mapping[str, str]
    seconds: Mapping[str, float]

    def count(self, outcome: str) -> int:
        """Return how many tests ended so: passed, failed, skipped, or known: expected to fail, and did."""
        return sum(found == outcome for found in self.outcomes.values())


def read_reports(folder: Path) -> Summary:
    """Read what every pytest of a lane has left. A test that ran twice has the worse of its outcomes."""
    outcomes: dict[str, str] = {}
    seconds: dict[str, float] = defaultdict(float)
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
    folders: dict[str, list[float]] = defaultdict(list)
    for name, took in summary.seconds.items():
        folders[folder_of(name)].append(took)
    rows = sorted(folders.items(), key=lambda row: -sum(row[1]))
    yield from (f"{sum(took):8.1f}  {name}, {len(took)} tests" for name, took in rows)
    yield from (
        f"failed: {name}" for name, outcome in sorted(summary.outcomes.items()) if outcome == "failed"
    )


def folder_of(name: str) -> str:
    """Return the folder below tests/ that a test belongs to."""
    parts = name.split("::", maxsplit=1)[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
