# SPDX-License-Identifier: Apache-2.0
"""Utilisation out of counters of GPU time, between readings that are far enough apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

SHORTEST_S = 1.0  # the engine's figures can be a second old
NS = 1e9


class Rates:
    """The part of the time in which something ran, by its key. Several scrapers may ask."""

    def __init__(self) -> None:
        """Nothing is known at first."""
        self._before: dict[Hashable, tuple[float, int]] = {}
        self._rate: dict[Hashable, float] = {}

    def add(self, key: Hashable, at: float, used: int) -> float | None:
        """Take a reading: seconds of a clock, and nanoseconds used. Returns the latest rate, 0 to 1."""
        before = self._before.get(key)
        if before is None or used < before[1]:
            self._before[key] = (at, used)
            self._rate.pop(key, None)
            return None
        elapsed = at - before[0]
        if elapsed >= SHORTEST_S:
            self._before[key] = (at, used)
            self._rate[key] = min(1.0, (used - before[1]) / NS / elapsed)
        return self._rate.get(key)

    def keep(self, keys: Iterable[Hashable]) -> None:
        """Forget all others."""
        wanted = set(keys)
        self._before = {key: value for key, value in self._before.items() if key in wanted}
        self._rate = {key: value for key, value in self._rate.items() if key in wanted}
