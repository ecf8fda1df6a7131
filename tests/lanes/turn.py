# SPDX-License-Identifier: Apache-2.0
"""Which shard continuous integration runs: they take turns by the number of commits."""

from __future__ import annotations

import subprocess

from tests.lanes.table import ROOT, Shard, Table


def count_commits() -> int:
    """Return how many commits the checkout's branch has."""
    command = ["git", "-c", f"safe.directory={ROOT}", "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def choose_shard(table: Table, commits: int) -> Shard:
    """Return the shard whose turn it is."""
    taking_turns = [shard for shard in table.shards if shard.takes_turns]
    return taking_turns[commits % len(taking_turns)]
