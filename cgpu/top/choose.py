# SPDX-License-Identifier: Apache-2.0
"""Which slices are shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cgpu.top.model import Slice

Figure = float | str | None


@dataclass(frozen=True, slots=True)
class Order:
    """Something to sort by."""

    says: str
    figure: Callable[[Slice], Figure]
    largest_first: bool = True


ORDERS = {
    "gpu": Order("GPU", lambda one: one.key.gpu, largest_first=False),
    "name": Order("name", lambda one: one.container.name or one.key.directory, largest_first=False),
    "time": Order("GPU time", lambda one: one.container.utilisation),
    "limit": Order("limit of GPU time", lambda one: one.container.limit),
    "memory": Order("memory in percent", lambda one: one.memory),
    "used": Order("memory in use", lambda one: one.container.used),
    "allocated": Order("memory of the slice", lambda one: one.container.allocated),
    "throttled": Order("throttled time", lambda one: one.throttled),
    "refused": Order("refused calls", lambda one: one.refused),
    "processes": Order("processes", lambda one: len(one.container.pids)),
}


def ordered(slices: Iterable[Slice], by: str, *, inverted: bool = False) -> tuple[Slice, ...]:
    """Return slices sorted; unknown figures come last, and equals are in the order of GPUs and names."""
    order = ORDERS[by]
    plain = sorted(
        slices, key=lambda one: (one.key.gpu, one.container.name or one.key.directory, one.key.directory)
    )
    known = [one for one in plain if order.figure(one) is not None]
    known.sort(key=lambda one: _comparable(order.figure(one)), reverse=order.largest_first != inverted)
    return (*known, *(one for one in plain if order.figure(one) is None))


def _comparable(figure: Figure) -> tuple[float, str]:
    return (0, figure.lower()) if isinstance(figure, str) else (figure or 0, "")


def matches(one: Slice, words: str) -> bool:
    """Say whether each word is a part of the container's name (with pod and namespace) or id, in any case."""
    text = f"{one.container.name or ''} {one.container.id}".lower()
    return all(word in text for word in words.lower().split())
