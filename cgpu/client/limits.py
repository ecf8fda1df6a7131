# SPDX-License-Identifier: Apache-2.0
"""The part of a GPU's time that its policy gives to each slice. docs/scheduling.md has the policies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from cgpu.client.policies import Policy

WHOLE = 100.0


class Member(NamedTuple):
    """A slice among others. busy: it has a process on the GPU."""

    weight: int
    high: bool
    busy: bool


@lru_cache(maxsize=64)
def shares(
    rule: Policy | None, places: int, ratio: int, members: tuple[Member, ...]
) -> tuple[float | None, ...]:
    """Return what each slice gets while it and all others with processes have work, in percent.

    A slice without a process gets its limit as if it had one. places: the GPU's max_inst; ratio: its
    prio_ratio. None where the policy is not known.
    """
    if rule is None:
        return (None,) * len(members)
    if rule.undivided:
        return (WHOLE,) * len(members)
    return tuple(_share(rule, places, ratio, members, number) for number in range(len(members)))


def _share(rule: Policy, places: int, ratio: int, members: tuple[Member, ...], number: int) -> float:
    own = members[number]
    if not own.weight:
        return 0.0
    present = [one._replace(busy=one.busy or at == number) for at, one in enumerate(members) if one.weight]
    high = [one for one in present if one.high and one.busy]
    low = [one for one in present if not one.high and (one.busy or rule.keeps_idle)]
    # Time that is kept for places without a container counts as one more container that has work.
    kept = max(0, places - _units(rule, low)) if rule.keeps_free else 0
    if own.high:
        part = ratio if low or kept else WHOLE
        return part * _units(rule, [own]) / _units(rule, high)
    part = WHOLE - ratio if high else WHOLE
    return part * _units(rule, [own]) / (_units(rule, low) + kept)


def _units(rule: Policy, members: Iterable[Member]) -> int:
    """Return the sum of what slices count under a policy."""
    return sum(1 if rule.by_number else one.weight for one in members)
