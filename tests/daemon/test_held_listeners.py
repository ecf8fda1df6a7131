# SPDX-License-Identifier: Apache-2.0
"""What waits while its container has its share of the workers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.daemon.linked import linked


def test_interrupted_calls_hold_nobody_up(tmp_path: Path) -> None:
    """Calls that go away while they wait take no turn from the one that still waits."""
    program = linked(Path(__file__).with_name("held_listeners.c"), (), tmp_path / "held_listeners")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
