# SPDX-License-Identifier: Apache-2.0
"""The tree's entry `sched` of a GPU: how its time is divided and measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cgpu.client.tree import is_whole

GATES, TIME_SLICES, DRIVER, NOBODY = "gates", "time_slices", "driver", "nobody"
NONE = "none"
DIVISIONS = {
    GATES: "by gates",
    TIME_SLICES: "by timeslices",
    DRIVER: "by the driver",
    NOBODY: "not enforced",
}


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Times in nanoseconds; None: the engine does not say."""

    divided_by: str | None = None
    usage_from: str | None = None
    resolution: int | None = None
    """How exact `usage` is."""
    slice: int | None = None
    """Time of one unit of weight."""

    @property
    def measures(self) -> bool:
        """Whether `usage` counts."""
        return self.usage_from not in (None, NONE)


UNSAID: Final = Scheduling()


def division(scheduling: Scheduling) -> str:
    """Return the words behind a policy's name: who divides the time."""
    word = DIVISIONS.get(scheduling.divided_by or "")
    return "" if word is None else f", {word}"


def parse(text: str) -> Scheduling:
    """Read the entry: words of the form key=value. Words that are not known are ignored; nothing raises."""
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    resolution, slice_ = (_nanoseconds(words.get(key, "")) for key in ("resolution", "slice"))
    return Scheduling(words.get("divided_by"), words.get("usage_from"), resolution, slice_)


def _nanoseconds(word: str) -> int | None:
    """Return a number above 0."""
    return int(word) or None if is_whole(word) else None
