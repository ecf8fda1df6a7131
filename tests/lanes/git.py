# SPDX-License-Identifier: Apache-2.0
"""Questions to git about the checkout."""

from __future__ import annotations

import subprocess

from tests.lanes.table import ROOT, LaneError


def ask_git(*words: str) -> str:
    """Return what a command of git prints. The checkout may be another user's. Raises LaneError."""
    command = ["git", "-c", f"safe.directory={ROOT}", *words]
    try:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise LaneError(str(error)) from error
