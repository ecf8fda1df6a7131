# SPDX-License-Identifier: Apache-2.0
"""Which shard continuous integration runs: they take turns by the number of commits."""

from __future__ import annotations

from tests.lanes.git import ask_git
from tests.lanes.table import LaneError, Shard, Table


def count_commits() -> int:
    """Return how many commits the checkout's branch has. Raises LaneError if not all of them are here."""
    if ask_git("rev-parse", "--is-shallow-repository").strip() != "false":
        raise LaneError("the clone is shallow, so its commits cannot be counted; run: git fetch --unshallow")
    return int(ask_git("rev-list", "--count", "HEAD"))


def choose_shard(table: Table, commits: int) -> Shard:
    """Return the shard whose turn it is."""
    taking_turns = [shard for shard in table.shards if shard.takes_turns]
    return taking_turns[commits % len(taking_turns)]
