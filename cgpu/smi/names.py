# SPDX-License-Identifier: Apache-2.0
"""Names of containers, asked of the container engines that answer at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from cgpu.errors import CgpuError
from cgpu.smi.model import Gpu

Names = dict[str, str]
"""Whole container id to name."""
Source = Callable[[], Names]
"""Something that can be asked for names; it answers with none rather than fail."""


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


def sources() -> list[Source]:
    """Return what can be asked, in the order of the engines' registry."""
    # Slow to import, and not needed where no container is shown.
    from cgpu.runtime_config.engines.registry import ENGINES

    return [partial(ask, listed) for engine in ENGINES.values() for listed in engine.running()]


class Directory:
    """Names that were asked for once; asks again only when an unknown container turns up."""

    def __init__(self, asked: Iterable[Source] | None = None) -> None:
        """Take the sources to ask, by default all engines of this machine."""
        self._sources = None if asked is None else list(asked)
        self._names: Names = {}
        self._nameless: set[str] = set()

    def named(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """Return the GPUs with the name of each container that has one."""
        self._learn({one.id for gpu in gpus for one in gpu.containers})
        return tuple(
            replace(
                gpu, containers=tuple(replace(one, name=self._names.get(one.id)) for one in gpu.containers)
            )
            for gpu in gpus
        )

    def _learn(self, wanted: set[str]) -> None:
        if not self._knows(wanted):
            self._sources = sources() if self._sources is None else self._sources
            for source in self._sources:
                self._names.update(source())
                if self._knows(wanted):
                    break
        # A publisher runs for months: names of containers that are gone are forgotten.
        self._names = {one: name for one, name in self._names.items() if one in wanted}
        self._nameless = wanted - self._names.keys()

    def _knows(self, wanted: set[str]) -> bool:
        return wanted <= self._names.keys() | self._nameless
