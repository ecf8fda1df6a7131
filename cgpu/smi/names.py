# SPDX-License-Identifier: Apache-2.0
"""Names of containers, asked of the container engines that answer at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from cgpu.client.directory import directory_of
from cgpu.errors import CgpuError
from cgpu.smi.model import Gpu

Names = dict[str, str]
"""Whole container id to name."""
Source = Callable[[], Names]
"""Something that can be asked for names; it answers with none rather than fail."""
AGAIN_S = 15.0  # a container that no engine knew may be listed later, and an engine that was slow may answer
MAX_LABEL = 253  # as long as names of Kubernetes can be


@dataclass(frozen=True, slots=True)
class Owner:
    """What a container is called; pod and namespace are empty outside of Kubernetes."""

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


class Directory:
    """Names that were asked for once; asks again for an unknown container, and later for a nameless one."""

    def __init__(
        self,
        asked: Iterable[Source] | None = None,
        again_s: float = AGAIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the sources to ask, by default all engines of this machine.

        again_s: seconds after which they are asked again for a container that had no name.
        """
        self._sources = None if asked is None else list(asked)
        self._again_s = again_s
        self._clock = clock
        self._names: Names = {}
        self._nameless: dict[str, float] = {}  # when they were asked for

    def named(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """Return the GPUs with the name of each container that has one."""
        names = self.names({one.id for gpu in gpus for one in gpu.containers})
        return tuple(
            replace(gpu, containers=tuple(replace(one, name=names.get(one.id)) for one in gpu.containers))
            for gpu in gpus
        )

    def names(self, wanted: set[str]) -> Names:
        """Return the names of these containers that have one. Others are forgotten."""
        now = self._clock()
        # A publisher runs for months: what is known of containers that are gone is forgotten.
        self._nameless = {
            one: at for one, at in self._nameless.items() if one in wanted and now - at < self._again_s
        }
        if not self._knows(wanted):
            self._sources = sources() if self._sources is None else self._sources
            for source in self._sources:
                self._names.update(source())
                if self._knows(wanted):
                    break
        self._names = {one: name for one, name in self._names.items() if one in wanted}
        for one in wanted - self._names.keys():
            self._nameless.setdefault(one, now)
        return self._names

    def _knows(self, wanted: set[str]) -> bool:
        return wanted <= self._names.keys() | self._nameless.keys()
