# SPDX-License-Identifier: Apache-2.0
"""The cards of a cluster that is not there."""

from __future__ import annotations


class Published:
    """As if nodes had published cards of these MiB."""

    def __init__(self, *sizes: int) -> None:
        self._sizes = sizes

    def spread(self) -> int:
        return 0

    def sizes(self) -> tuple[int, ...]:
        return self._sizes

    def largest(self, _mib: int) -> int:
        return max(self._sizes, default=0)
