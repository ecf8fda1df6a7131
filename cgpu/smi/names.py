# SPDX-License-Identifier: Apache-2.0
"""Names of containers, asked of the container engines that answer at once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.runtime_config.engines import docker
from cgpu.smi.model import Gpu

PODMAN = (Path("/usr/bin/podman"), Path("/usr/local/bin/podman"))
SOCKET_TIMEOUT = 1  # seconds
PODMAN_TIMEOUT = 5  # seconds

Names = dict[str, str]
"""Whole container id to name."""
Source = Callable[[], Names]
"""Something that can be asked for names; it answers with none rather than fail."""


def from_socket(path: Path) -> Names:
    """Ask an engine that speaks Docker's protocol. Returns nothing when it does not answer in time."""
    if not path.is_socket():
        return {}
    try:
        return by_id(docker.rows(path, SOCKET_TIMEOUT, stopped=False))
    except CgpuError:
        return {}


def from_podman(program: Path) -> Names:
    """Ask the podman program. Returns nothing when it does not answer in time."""
    if not program.is_file():
        return {}
    command = [str(program), "ps", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PODMAN_TIMEOUT, check=True)
        return by_id(json.loads(done.stdout or b"[]"))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def by_id(rows: object) -> Names:
    """Return id to name out of an engine's list, without the rows that are not as known."""
    names: Names = {}
    for row in rows if isinstance(rows, list) else []:
        match row:
            case {"Id": str(container), "Names": [str(name), *_]}:
                names[container] = name.removeprefix("/")
            case _:
                pass
    return names


def sources() -> list[Source]:
    """Return what can be asked, the cheapest first."""
    return [
        *(partial(from_socket, path) for path in docker.sockets()),
        *(partial(from_podman, program) for program in PODMAN),
    ]


class Directory:
    """Names that were asked for once; asks again only when an unknown container turns up."""

    def __init__(self, asked: Iterable[Source] | None = None) -> None:
        """Take the sources to ask, by default all engines of this machine."""
        self._sources = list(sources() if asked is None else asked)
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
        for source in self._sources:
            if wanted <= self._names.keys() | self._nameless:
                break
            self._names.update(source())
        self._nameless = wanted - self._names.keys()
