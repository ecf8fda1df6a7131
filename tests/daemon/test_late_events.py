# SPDX-License-Identifier: Apache-2.0
"""What the daemon hears of processes late."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.daemon.linked import linked

WRAPPED = ("epoll_wait", "cgroup_holds", "cgroup_populated", "lever_reconcile")


def test_of_the_container_before(tmp_path: Path) -> None:
    """The end of a process that is heard of late does not end the next container's registration."""
    program = linked(Path(__file__).with_name("late_events.c"), WRAPPED, tmp_path / "late_events")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
