# SPDX-License-Identifier: Apache-2.0
"""Proposals for mistyped words in messages. Nothing that starts a container imports this file."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

ALIKE = 0.6
FEW = 5  # words that a line can list
LONGEST = 64  # a longer word is no slip of a finger, and would take long to compare


def expected(word: object, known: Collection[str], more: str) -> str:
    """Return the end of a message about an unknown word: all known ones if they are few, and the nearest one.

    more: says where all of them are listed, for the case that they are too many for a line.
    """
    near = nearest(word, known)
    meant = [] if near is None else [f"did you mean {near}?"]
    if len(known) <= FEW:
        return "; ".join([f"expected {one_of(known)}", *meant])
    return " ".join(part for part in (*meant, more) if part)


def nearest(word: object, known: Collection[str], alike: float = ALIKE) -> str | None:
    """Return the known word that was probably meant; None where none is near. Case does not count.

    alike: from 0 to 1, how like it has to be at least.
    """
    if not isinstance(word, str) or len(word) > LONGEST:
        return None
    folded = {one.lower(): one for one in known}
    found = get_close_matches(word.lower(), folded, n=1, cutoff=alike)
    return folded[found[0]] if found else None


def one_of(known: Collection[str]) -> str:
    """Return words as they stand in a sentence: a, b or c."""
    *first, last = known
    return f"{', '.join(first)} or {last}" if first else last
