# SPDX-License-Identifier: Apache-2.0
"""Room for reviews: where it is full, the address that takes most of it loses its oldest one."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class Place:
    """One review that is waited for in an `async with`, which raises TimeoutError after end(), or in time."""

    def __init__(self, peer: str, seconds: float) -> None:
        """Make the place of a review of that address."""
        self.peer = peer
        self.ended = False
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> Self:
        """Begin to count the time."""
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise TimeoutError if the review was to end."""
        await self._limit.__aexit__(kind, error, trace)

    def end(self) -> None:
        """Have the review give up, if it still waits."""
        self.ended = True
        with contextlib.suppress(RuntimeError):  # it has gone on
            self._limit.reschedule(0)


class Room:
    """A bounded amount, taken by places."""

    def __init__(self, most: int) -> None:
        """Have this amount."""
        self._most = most
        self._taken: dict[Place, int] = {}  # the oldest first

    def take(self, place: Place, amount: int = 1) -> None:
        """Give a place more of it. This ends others, or this one, where there is too little."""
        self._taken[place] = self._taken.get(place, 0) + amount
        while sum(self._taken.values()) > self._most:
            self._end_one()

    def leave(self, place: Place) -> None:
        """Have a place take nothing."""
        self._taken.pop(place, None)

    def _end_one(self) -> None:
        of_peer: dict[str, int] = {}
        for place, amount in self._taken.items():
            of_peer[place.peer] = of_peer.get(place.peer, 0) + amount
        crowd = max(of_peer, key=lambda peer: of_peer[peer])
        oldest = next(place for place in self._taken if place.peer == crowd)
        del self._taken[oldest]
        oldest.end()
