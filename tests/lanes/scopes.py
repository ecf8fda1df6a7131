# SPDX-License-Identifier: Apache-2.0
"""Hands a worker of pytest a whole file, or all files of a folder that the table keeps together."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.lanes.table import read_table


class Scopes(LoadScopeScheduling):
    """Scheduling by the scopes of the table."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self.table = read_table()

    def _split_scope(self, nodeid: str) -> str:
        return self.table.scope_of(nodeid)
