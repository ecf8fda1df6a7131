# SPDX-License-Identifier: Apache-2.0
"""How often a test repeats: few times in a normal run, many with CGPU_VM_FULL=1."""

from __future__ import annotations

import os


def count(ci: int, full: int) -> int:
    """Return the number that counts today."""
    return full if os.environ.get("CGPU_VM_FULL") == "1" else ci
