# SPDX-License-Identifier: Apache-2.0
"""The scheduling policies, as the engine publishes them in its entry `policies`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from cgpu.errors import CgpuError, show

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Policy:
    """Promises of a policy. docs/scheduling.md has all of them."""

    name: str
    by_number: bool = False
    """Each container counts once, whatever its weight."""
    keeps_idle: bool = False
    """The time of a container without work stays its own."""
    keeps_free: bool = False
    """The time of places that no container has is nobody's."""
    undivided: bool = False
    """The driver's own scheduling."""


_TRAITS: Final = tuple(one.name for one in fields(Policy) if one.name != "name")


def parse(text: str) -> dict[int, Policy]:
    """Return the policies by their numbers; words that are not known are ignored. Raises CgpuError."""
    return dict(map(_policy, text.splitlines()))


def _policy(line: str) -> tuple[int, Policy]:
    # The name is last, as it may have blanks.
    words, _, name = line.partition(" name=")
    found = dict(word.partition("=")[::2] for word in words.split(" "))
    number, traits = found.get("policy", ""), [found.get(trait) for trait in _TRAITS]
    if not (name and number.isascii() and number.isdigit() and len(number) <= 2) or None in traits:
        raise CgpuError(f"policies: {show(line)}: expected policy, {', '.join(_TRAITS)} and name")
    return int(number), Policy(name, *(trait != "0" for trait in traits))
