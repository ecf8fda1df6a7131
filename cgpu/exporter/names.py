# SPDX-License-Identifier: Apache-2.0
"""Which container, pod and namespace a slice is of: labels as cAdvisor has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cgpu.client.directory import directory_of
from cgpu.smi.names import Directory, Source

AGAIN_S = 15.0  # a container that no engine knew may be listed later
MAX_LABEL = 253  # as long as names of Kubernetes can be


@dataclass(frozen=True, slots=True)
class Owner:
    """Values of the labels of a container; pod and namespace are empty outside of Kubernetes."""

    container: str
    pod: str
    namespace: str
    name: str
    id: str


def owner(container: str, name: str | None) -> Owner:
    """Return the labels of a container by its whole id, and its name as cgpu-smi shows it.

    A pod's container has the name NAMESPACE/POD/CONTAINER. Without a name the directory in the tree stands.
    """
    short = directory_of(container)
    parts = [part[:MAX_LABEL] for part in name.split("/")] if name else []
    if len(parts) == 3:
        namespace, pod, inner = parts
        return Owner(inner, pod, namespace, short, short)
    plain = parts[0] if len(parts) == 1 else short
    return Owner(plain, "", "", plain, short)


class Names:
    """Labels of containers. Container engines are asked when an unknown one turns up, not at each scrape."""

    def __init__(
        self, asked: Iterable[Source] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the sources to ask, by default all container engines of this machine."""
        self._directory = Directory(asked, AGAIN_S, clock)

    def of(self, containers: Iterable[str]) -> dict[str, Owner]:
        """Return the labels of these containers, by id."""
        wanted = set(containers)
        names = self._directory.names(wanted)
        return {one: owner(one, names.get(one)) for one in wanted}
