# SPDX-License-Identifier: Apache-2.0
"""Hands a worker of pytest a whole file, or the group of files that the table keeps together, the longest groups first."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.lanes.table import read_table


class Scopes(LoadScopeScheduling):
    """Scheduling by the scopes of the table."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self.table = read_table()

    def _split_scope(self, nodeid: str) -> str:
        return self.table.scope_of(nodeid)
