# SPDX-License-Identifier: Apache-2.0
"""Which shard continuous integration runs: they take turns by the number of commits.

A shallow clone has not all commits; there they take turns by the hour of the newest one.
"""

from __future__ import annotations

from tests.lanes.git import ask_git
from tests.lanes.table import Shard, Table

HOUR_S = 3600


def count_commits() -> int:
    """Return how many commits the checkout's branch has, or hours in a shallow clone. Raises LaneError."""
    if ask_git("rev-parse", "--is-shallow-repository").strip() == "false":
        return int(ask_git("rev-list", "--count", "HEAD"))
    return int(ask_git("log", "-1", "--format=%ct")) // HOUR_S


def choose_shard(table: Table, commits: int) -> Shard:
    """Return the shard whose turn it is."""
    taking_turns = [shard for shard in table.shards if shard.takes_turns]
    return taking_turns[commits % len(taking_turns)]
