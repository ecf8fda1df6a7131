# SPDX-License-Identifier: Apache-2.0
"""Questions to git about the checkout."""

from __future__ import annotations

import subprocess

from tests.lanes.table import ROOT


def ask_git(*words: str) -> str:
    """Return what a command of git prints. The checkout may be another user's."""
    command = ["git", "-c", f"safe.directory={ROOT}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
