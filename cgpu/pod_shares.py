# SPDX-License-Identifier: Apache-2.0
"""Shares of pods for which another scheduler than Kubernetes' own decides: a file for each pod, by its UID.

Nothing in such a container's configuration names its shares. While the node's agent reads what a scheduler
has decided, the folder of these files is there, and a container that names a GPU has what its pod's file
says. A container that comes before the file waits for it.
"""

from __future__ import annotations

import os

from cgpu import paths, shares
from cgpu.errors import CgpuError, show
from cgpu.request.grants import is_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

FOLDER = "pods"
VERSION = 1
WAIT_S = 10.0
STEP_S = 0.05
MAX_REFUSAL = 1024


class PodShares:
    """Ids of the shares of a pod's containers, or why it has none. Treat it as read-only."""

    __slots__ = ("containers", "refusal")

    def __init__(self, containers: Mapping[str, Sequence[str]], refusal: str = "") -> None:
        self.containers = containers
        self.refusal = refusal[:MAX_REFUSAL]

    def to_dict(self) -> dict[str, object]:
        """Return the document of the file."""
        containers = {name: list(ids) for name, ids in self.containers.items()}
        return {"version": VERSION, "containers": containers, "refusal": self.refusal}


def is_on(folder: str = paths.SHARES) -> bool:
    """Return whether another scheduler decides on this node."""
    return os.path.isdir(f"{folder}/{FOLDER}")


def turn_on(folder: str) -> None:
    """Have containers wait for what another scheduler decides. Raises OSError."""
    for path in (folder, f"{folder}/{FOLDER}"):
        if not os.path.isdir(path):
            os.mkdir(path, mode=0o700)


def turn_off(folder: str) -> None:
    """Have no container wait any more; all files go. Raises CgpuError, OSError."""
    from pathlib import Path

    from cgpu.replace import tidy_folder

    if is_on(folder):
        for pod in listed(folder):
            remove(pod, folder)
        tidy_folder(Path(folder, FOLDER))
        os.rmdir(f"{folder}/{FOLDER}")


def find(pod: str, folder: str) -> PodShares | None:
    """Read the file of a pod, None where there is none. Raises CgpuError."""
    place = f"{folder}/{FOLDER}"
    try:
        document = shares.read_document(pod, place)
    except FileNotFoundError:
        return None
    try:
        found = _parse(document)
    except (AttributeError, KeyError, TypeError):
        found = None
    if found is None or found.to_dict() != document:
        raise CgpuError(f"{place}/{pod}.json: expected the file of a pod's shares of version {VERSION}")
    return found


def _parse(document: Any) -> PodShares:
    containers = {name: tuple(ids) for name, ids in document["containers"].items()}
    return PodShares(containers, document["refusal"])


def write(pod: str, found: PodShares, folder: str) -> None:
    """Put the file of a pod in place. Raises CgpuError."""
    shares.write_document(pod, found.to_dict(), f"{folder}/{FOLDER}")


def remove(pod: str, folder: str) -> None:
    """Remove the file of a pod, if it is there. Raises CgpuError."""
    shares.remove(pod, f"{folder}/{FOLDER}")


def listed(folder: str) -> tuple[str, ...]:
    """Return the UIDs of all pods that have a file. Raises CgpuError."""
    return shares.listed(f"{folder}/{FOLDER}")


def await_shares(pod: str, container: str, wait_s: float = WAIT_S) -> tuple[str, ...]:
    """Return the shares of a pod's container; wait until it is known whether it has any. Raises CgpuError."""
    import time

    if not is_share(pod):  # UIDs of objects have the same form
        raise CgpuError(f"pod {show(pod)}: the cluster's scheduler has given it no GPU; expected a UID")
    end = time.monotonic() + wait_s
    while (found := find(pod, paths.SHARES)) is None:
        if time.monotonic() >= end:
            raise CgpuError(
                f"pod {pod}: in {wait_s:g} s this node's agent has read no annotation by which the cluster's "
                "scheduler has given it a GPU; expected that scheduler's pod: kubectl describe pod"
            )
        time.sleep(STEP_S)
    ids = tuple(found.containers.get(container, ()))
    if not ids:
        why = found.refusal or f"its scheduler has given the container {show(container)} no GPU"
        raise CgpuError(f"pod {pod}: {why}")
    return ids
