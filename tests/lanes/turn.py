# SPDX-License-Identifier: Apache-2.0
"""Questions to git about the checkout, and which shard continuous integration runs.

Shards take turns by the number of commits; in a shallow clone, which has not all, by the hour of the newest.
"""

from __future__ import annotations

import subprocess

from tests.lanes.table import ROOT, LaneError, Shard, Table

HOUR_S = 3600


def ask_git(*words: str) -> str:
    """Return what a command of git prints. The checkout may be another user's. Raises LaneError."""
    command = ["git", "-c", f"safe.directory={ROOT}", *words]
    try:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise LaneError(str(error)) from error


def count_commits() -> int:
    """Return how many commits the checkout's branch has, or hours in a shallow clone. Raises LaneError."""
    if ask_git("rev-parse", "--is-shallow-repository").strip() == "false":
        return int(ask_git("rev-list", "--count", "HEAD"))
    return int(ask_git("log", "-1", "--format=%ct")) // HOUR_S


def choose_shard(table: Table, commits: int) -> Shard:
    """Return the shard whose turn it is."""
    taking_turns = [shard for shard in table.shards if shard.takes_turns]
    return taking_turns[commits % len(taking_turns)]
