# SPDX-License-Identifier: Apache-2.0
"""The engine's words on how it divides and measures a GPU's time."""

from __future__ import annotations

from dataclasses import dataclass

GATES, TIME_SLICES, DRIVER, NOBODY = "gates", "time_slices", "driver", "nobody"
SAMPLES, NONE = "samples", "none"
DIVIDERS = (GATES, TIME_SLICES, DRIVER, NOBODY)
METERS = (GATES, SAMPLES, NONE)
DIVISIONS = {
    GATES: "by gates",
    TIME_SLICES: "by timeslices",
    DRIVER: "by the driver",
    NOBODY: "not enforced",
}


@dataclass(frozen=True)
class Scheduling:
    """Times in nanoseconds; None: the engine does not say, or says what is not known here."""

    divided_by: str | None = None
    usage_from: str | None = None
    resolution: int | None = None
    """How exact `usage` is."""
    slice: int | None = None
    """Time of one unit of weight."""

    @property
    def measures(self) -> bool | None:
        """Whether `usage` counts."""
        return None if self.usage_from is None else self.usage_from != NONE


def division(scheduling: Scheduling) -> str:
    """Return the words behind a policy's name: who divides the time."""
    word = DIVISIONS.get(scheduling.divided_by or "")
    return "" if word is None else f", {word}"


def parse(text: str) -> Scheduling:
    """Read the node: words of the form key=value. Unknown words are ignored; nothing raises."""
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    return Scheduling(
        one_of(words.get("divided_by"), DIVIDERS),
        one_of(words.get("usage_from"), METERS),
        nanoseconds(words.get("resolution")),
        nanoseconds(words.get("slice")),
    )


def one_of(word: str | None, known: tuple[str, ...]) -> str | None:
    """Return the word if it is known."""
    return word if word in known else None


def nanoseconds(word: str | None) -> int | None:
    """Return a number above 0."""
    return int(word) or None if word is not None and is_number(word) else None


def is_number(word: str) -> bool:
    """Say whether a word is a whole number of at most 20 digits."""
    return len(word) <= 20 and word.isascii() and word.isdigit()
