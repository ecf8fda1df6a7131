# SPDX-License-Identifier: Apache-2.0
"""A thread that is killed while its call is in the driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.daemon.linked import linked


def test_closes_nothing_of_others(tmp_path: Path) -> None:
    """What the daemon opened while it took the answer back stays open."""
    program = linked(Path(__file__).with_name("killed_in_call.c"), (), tmp_path / "killed_in_call")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
