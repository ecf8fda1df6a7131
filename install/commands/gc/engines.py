# SPDX-License-Identifier: Apache-2.0
"""What the container engines of this machine say of their containers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.install.node.facts import programs
from cgpu.smi.names import sockets

CONTAINERD = "/run/containerd/containerd.sock"
CRIO = "/run/crio/crio.sock"
TIMEOUT_S = 10.0
# What engines call a container that has ended. Any other word means that it may have processes.
ENDED = frozenset({"exited", "dead", "stopped", "removing", "configured", "container_exited"})

Ended = dict[str, bool]
"""Whole container id to whether the engine says that it has ended."""


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """One engine. ask raises CgpuError when it does not answer."""

    name: str
    ask: Callable[[], Ended]


def engines(root: Path = Path("/")) -> list[ContainerEngine]:
    """Return the engines that are there to be asked."""
    found = [ContainerEngine(f"docker ({path})", partial(docker, path)) for path in _first_of_each(sockets())]
    podman_program = programs.find(root, "podman")
    if podman_program is not None:
        found.append(ContainerEngine("podman", partial(podman, [str(podman_program)])))
    address = os.environ.get("CONTAINERD_ADDRESS", CONTAINERD)
    ctr, crictl = programs.find(root, "ctr"), programs.find(root, "crictl")
    if Path(address).is_socket():
        if ctr is not None:
            found.append(ContainerEngine("containerd", partial(containerd, [str(ctr), "-a", address])))
        elif crictl is not None:
            found.append(
                ContainerEngine("containerd", partial(cri, [str(crictl), "-r", f"unix://{address}"]))
            )
    if crictl is not None and Path(CRIO).is_socket():
        found.append(ContainerEngine("cri-o", partial(cri, [str(crictl), "-r", f"unix://{CRIO}"])))
    return found


def docker(socket: Path) -> Ended:
    """Ask an engine that speaks Docker's protocol. Raises CgpuError."""
    import docker as library
    import docker.errors
    from requests.exceptions import RequestException

    if not socket.is_socket():
        raise CgpuError(f"{socket}: does not answer: there is no such socket")
    try:
        client = library.APIClient(base_url=f"unix://{socket}", version="auto", timeout=int(TIMEOUT_S))
        try:
            return by_state(client.containers(all=True), "Id", "State")
        finally:
            client.close()
    except (docker.errors.DockerException, RequestException, OSError, ValueError) as error:
        raise CgpuError(f"{socket}: does not answer: {error}") from error


def podman(command: list[str]) -> Ended:
    """Ask podman. Raises CgpuError."""
    return by_state(_json([*command, "ps", "--all", "--format", "json"]), "Id", "State")


def containerd(command: list[str]) -> Ended:
    """Ask containerd in all its namespaces, which have Docker's containers as well. Raises CgpuError."""
    ended: Ended = {}
    for namespace in _lines([*command, "namespaces", "ls", "--quiet"]):
        inside = [*command, "--namespace", namespace]
        ended |= dict.fromkeys(_lines([*inside, "containers", "ls", "--quiet"]), True)
        # A container without a task has no process.
        ended |= tasks(_lines([*inside, "tasks", "ls"]))
    return ended


def cri(command: list[str]) -> Ended:
    """Ask an engine that speaks Kubernetes' protocol. Raises CgpuError."""
    answer = _json([*command, "ps", "--all", "--output", "json"])
    rows = answer.get("containers") if isinstance(answer, dict) else None
    return by_state(rows, "id", "state")


def tasks(lines: Iterable[str]) -> Ended:
    """Read the table of `ctr tasks ls`: TASK, PID, STATUS."""
    rows = (line.split() for line in lines)
    return {row[0]: is_ended(row[2]) for row in rows if len(row) == 3 and row[0] != "TASK"}


def by_state(rows: object, key: str, state: str) -> Ended:
    """Return which containers of an engine's list have ended; a row of an unknown form counts as running."""
    ended: Ended = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get(key), str):
            ended[row[key]] = is_ended(row.get(state))
    return ended


def is_ended(state: object) -> bool:
    """Tell whether an engine's word means that no process is left."""
    return isinstance(state, str) and state.lower() in ENDED


def _first_of_each(paths: list[Path]) -> list[Path]:
    """Return the sockets that are there, each once: /run and /var/run are one folder."""
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_socket():
            found.setdefault(path.resolve(), path)
    return list(found.values())


def _json(command: list[str]) -> object:
    said = _asked(command)
    try:
        return json.loads(said or "null")
    except (ValueError, RecursionError) as error:
        raise CgpuError(f"{command[0]}: answers no JSON") from error


def _lines(command: list[str]) -> list[str]:
    return [line.strip() for line in _asked(command).splitlines() if line.strip()]


def _asked(command: list[str]) -> str:
    said = programs.output(*command, timeout_s=TIMEOUT_S)
    if said is None:
        raise CgpuError(f"{' '.join(command)}: fails")
    return said
