# SPDX-License-Identifier: Apache-2.0
"""Clients of NVIDIA's management library from PyPI, in a folder of their own for the host's Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.nvidia.archive import STORE, NotInArchiveError

PINNED = (
    "blessed==1.20.0",
    "gpustat==1.1.1",
    "nvidia-ml-py==12.575.51",
    "nvitop==1.5.1",
    "psutil==5.9.8",
    "six==1.17.0",
    "wcwidth==0.2.13",
)
SECONDS = 300


def fetched(folder: Path, stamp: Path, pinned: Sequence[str], *options: str, seconds: float) -> Path:
    """Have pip put packages into a folder, at most once; stamp: the file that says which it has.

    Raises NotInArchiveError where PyPI is not reached.
    """
    wanted = "\n".join(pinned)
    with hold_lock(folder.parent / "lock"):
        if stamp.exists() and stamp.read_text() == wanted:
            return folder
        words = ["install", "--quiet", "--upgrade", "--disable-pip-version-check", *options]
        command = [sys.executable, "-m", "pip", *words, "--target", str(folder), *pinned]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines() or ["pip failed"]
            raise NotInArchiveError(f"PyPI is not reached from here, for {pinned[0]}: {reason[-1]}")
        stamp.write_text(wanted)
    return folder


def clients() -> Path:
    """Return the folder with the clients. Raises NotInArchiveError where PyPI is not reached."""
    folder = STORE / "pypi"
    return fetched(folder, folder / "pinned", PINNED, "--no-deps", seconds=SECONDS)
