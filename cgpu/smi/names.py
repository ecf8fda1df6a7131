# SPDX-License-Identifier: Apache-2.0
"""Names of containers, asked of the container engines that answer at once."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from cgpu.client.cards import Card
from cgpu.client.directory import directory_of
from cgpu.errors import CgpuError

Names = dict[str, str]
"""Whole container id to name."""
Source = Callable[[], Names]
"""Something that can be asked for names; it answers with none rather than fail."""
AGAIN_S = 60.0  # a container that no engine knew may be listed later, and an engine that was slow may answer
WAIT_S = 10.0  # for a command that prints once: some engines are given up after seconds of silence
SHORT_WAIT_S = 1.0  # for one that shows what is now again and again, or whose reader waits
MAX_LABEL = 253  # as long as names of Kubernetes can be


@dataclass(frozen=True, slots=True)
class Owner:
    """A container's names; pod and namespace are empty outside of Kubernetes."""

    container: str
    pod: str
    namespace: str
    name: str
    id: str


@lru_cache(maxsize=1024)
def owner(container: str, name: str | None) -> Owner:
    """Return what a container is called, by its whole id and the name that an engine says.

    A pod's container has the name NAMESPACE/POD/CONTAINER. Without a name the directory in the tree stands.
    """
    short = directory_of(container)
    parts = [part[:MAX_LABEL] for part in name.split("/")] if name else []
    if len(parts) == 3:
        namespace, pod, inner = parts
        return Owner(inner, pod, namespace, short, short)
    plain = parts[0] if len(parts) == 1 else short
    return Owner(plain, "", "", plain, short)


def ask(listed: Callable[[], object]) -> Names:
    """Ask an engine for its running containers. Returns nothing when it does not answer at once."""
    try:
        return by_id(listed())
    except CgpuError:
        return {}


def by_id(rows: object) -> Names:
    """Return id to name out of an engine's list, without the rows that are not as known."""
    names: Names = {}
    for row in rows if isinstance(rows, list) else []:
        match row:
            case {"Id": str(container), "Names": [str(name), *_]}:
                names[container] = name.removeprefix("/")
    return names


def sources(*, ended: bool = False) -> list[Source]:
    """Return what can be asked, in the order of the engines' registry.

    ended: also for containers that have ended, where their engine still lists them.
    """
    # Slow to import, and not needed where no container is shown.
    from cgpu.runtime_config.engines.registry import ENGINES

    return [partial(ask, listed) for engine in ENGINES.values() for listed in engine.running(ended=ended)]


class _Asking(threading.Thread):
    """Asks one source after the other, until it has all the names that are wanted or no source is left."""

    def __init__(self, asked: Iterable[Source], wanted: frozenset[str]) -> None:
        super().__init__(daemon=True)
        self._asked = asked
        self.wanted = wanted
        self.names: Names = {}

    def run(self) -> None:
        for source in self._asked:
            # Anew: another thread may be reading.
            self.names = {**self.names, **source()}
            if self.wanted <= self.names.keys():
                break

    def end_programs(self) -> None:
        """End the engines' programs that still run for this thread: no thread is left to do it later."""
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/self/task/{self.native_id}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


class Directory:
    """Names that were asked for once; asks again for an unknown container, and later for a nameless one."""

    def __init__(
        self,
        asked: Iterable[Source] | None = None,
        again_s: float = AGAIN_S,
        clock: Callable[[], float] = time.monotonic,
        wait_s: float = WAIT_S,
        *,
        ended: bool = False,
    ) -> None:
        """Take the sources to ask, by default all engines of this machine.

        again_s: seconds after which they are asked again for a container that had no name. wait_s: seconds
        after which a call returns what is known by then; a later one has the rest. ended: as of sources().
        """
        self._ended = ended
        self._sources = None if asked is None else list(asked)
        self._again_s = again_s
        self._clock = clock
        self._wait_s = wait_s
        self._names: Names = {}
        self._nameless: dict[str, float] = {}  # until when no engine is asked for it
        self._asking: _Asking | None = None

    def named(self, cards: tuple[Card, ...]) -> tuple[Card, ...]:
        """Return the cards with the name of each container that has one."""
        names = self.names({one.stat.id for card in cards for one in card.containers})
        return tuple(
            replace(
                card,
                containers=tuple(replace(one, name=names.get(one.stat.id)) for one in card.containers),
            )
            for card in cards
        )

    def owners(self, containers: set[str]) -> dict[str, Owner]:
        """Return what these containers are called, by id."""
        names = self.names(containers)
        return {one: owner(one, names.get(one)) for one in containers}

    def names(self, wanted: set[str]) -> Names:
        """Return the names of these containers that have one. Others are forgotten."""
        self._take(0)
        # A publisher runs for months: names of containers that are gone are dropped.
        self._nameless = {one: until for one, until in self._nameless.items() if one in wanted}
        if self._asking is None and not self._knows(wanted):
            self._ask(frozenset(wanted))
            self._take(self._wait_s)
        self._names = {one: name for one, name in self._names.items() if one in wanted}
        return self._names

    def _ask(self, wanted: frozenset[str]) -> None:
        self._sources = sources(ended=self._ended) if self._sources is None else self._sources
        asking = _Asking(self._sources, wanted)
        try:
            asking.start()
        except RuntimeError:
            return  # no thread can be had at the moment: there are no names then
        atexit.register(asking.end_programs)
        self._asking = asking

    def _take(self, wait_s: float) -> None:
        """Take what the engines have said after these seconds, or before, where all have answered."""
        asking = self._asking
        if asking is None:
            return
        asking.join(wait_s)
        ended = not asking.is_alive()
        self._names.update(asking.names)
        if not ended:
            return
        atexit.unregister(asking.end_programs)
        self._asking = None
        now = self._clock()
        for one in asking.wanted - self._names.keys():
            if now >= self._nameless.get(one, now):
                self._nameless[one] = now + self._again_s

    def _knows(self, wanted: set[str]) -> bool:
        now = self._clock()
        asked = {one for one, until in self._nameless.items() if now < until}
        return wanted <= self._names.keys() | asked
