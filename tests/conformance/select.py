# SPDX-License-Identifier: Apache-2.0
"""Which cases can be carried out where: told by what their steps name, and not by lists of cases.

Cases are written for two T4 cards. Where there is one, steps that only look at the second are left out, and
so are cases of which another step names it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from tests.conformance.steps import Case, Json, Step

SECOND = "1"
LOOKS = ("read", "list", "stat")
# In what is written to inst_ctl: a slice of the second card, or the whole of it.
WRITTEN = re.compile(r".* (?:gpu|native)=1\b.*\n?")
WORD = f"gpu={SECOND}"  # of the probe


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def is_of_second_card(step: Step) -> bool:
    """Say whether a step looks at the second card, or needs it."""
    if str(step.get("node", "")).split("/")[0] == SECOND:
        return True
    if step["op"] == "list" and step["node"] == "":
        # Which cards there are.
        return step.get("directories", False) and SECOND in (step["expect"] or [])
    if step["op"] == "write" and any(WRITTEN.fullmatch(text) for text in _texts(step.get("text", ""))):
        return not _is_malformed(step)
    if WORD in step.get("program", []):
        return True
    return any(is_of_second_card(inner) for worker in step.get("workers", []) for inner in worker)


def _is_malformed(step: Step) -> bool:
    """Say whether a write is refused for its form, on any cards."""
    expected = step["expect"]
    return isinstance(expected, dict) and expected.get("errno") == "EINVAL"


def for_one_card(case: Case) -> Case | None:
    """Return a case as one card can show it; None where the case is about two."""
    kept = tuple(step for step in case.steps if not (step["op"] in LOOKS and is_of_second_card(step)))
    if len(kept) < len(case.steps) and all(step["op"] not in LOOKS for step in kept):
        return None
    if any(is_of_second_card(step) for step in kept):
        return None
    return dataclasses.replace(case, steps=kept)


def with_one_card(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that one card can show, without the steps that look at another."""
    return [fitted for fitted in map(for_one_card, cases) if fitted is not None]
