# SPDX-License-Identifier: Apache-2.0
"""Which container, pod and namespace a slice is of: labels as cAdvisor has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from cgpu.smi.names import SHORT_WAIT_S, Directory, Owner, Source, owner


class Names:
    """Labels of containers. Container engines are asked when an unknown one turns up, not at each scrape."""

    def __init__(
        self, asked: Iterable[Source] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the sources to ask, by default all container engines of this machine."""
        self._directory = Directory(asked, clock=clock, wait_s=SHORT_WAIT_S)

    def of(self, containers: Iterable[str]) -> dict[str, Owner]:
        """Return the labels of these containers, by id."""
        wanted = set(containers)
        names = self._directory.names(wanted)
        return {one: owner(one, names.get(one)) for one in wanted}
