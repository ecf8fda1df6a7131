# SPDX-License-Identifier: Apache-2.0
"""How cgpud is started as a process: its command line and environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import cgpu

MODULE = "cgpu.kmod.daemon.main"
KEPT = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV")


def command(*arguments: str) -> list[str]:
    """Return the command line of cgpud with these arguments.

    Who runs without site packages, as the commands of the Debian package do, starts the daemon so too.
    """
    isolated = ["-S"] if sys.flags.no_site else []
    return [sys.executable, "-P", *isolated, "-m", MODULE, *arguments]


def environment() -> dict[str, str]:
    """Return of our environment only what Python needs to find the package."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    # The very package that runs here, from wherever it was started.
    return {**kept, "PYTHONPATH": str(Path(cgpu.__file__).resolve().parent.parent)}
