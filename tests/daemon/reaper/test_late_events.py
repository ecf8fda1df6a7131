# SPDX-License-Identifier: Apache-2.0
"""What the daemon hears of processes late."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.harness import PROGRAMS
from tests.daemon.linked import linked, succeeds

WRAPPED = ("epoll_wait", "cgroup_holds", "cgroup_populated", "reaper_reconcile")


def test_of_the_container_before(tmp_path: Path) -> None:
    """The end of a process that is heard of late does not end the next container's registration."""
    succeeds(linked(PROGRAMS / "late_events.c", WRAPPED, tmp_path / "late_events"), "of_the_container_before")
