# SPDX-License-Identifier: Apache-2.0
"""A thread that is killed while its call is in the driver."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.harness import PROGRAMS
from tests.daemon.linked import linked, succeeds


def test_closes_nothing_of_others(tmp_path: Path) -> None:
    """What the daemon opened while it took the answer back stays open."""
    succeeds(
        linked(PROGRAMS / "killed_in_call.c", (), tmp_path / "killed_in_call"), "closes_nothing_of_others"
    )
