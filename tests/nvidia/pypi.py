# SPDX-License-Identifier: Apache-2.0
"""Clients of NVIDIA's management library from PyPI, in a folder of their own for the host's Python."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

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


def clients() -> Path:
    """Return the folder with the clients, fetched at most once.

    Raises NotInArchiveError where PyPI is not reached.
    """
    STORE.mkdir(parents=True, exist_ok=True)
    folder = STORE / "pypi"
    stamp = folder / "pinned"
    wanted = "\n".join(PINNED)
    with (STORE / "pypi.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return folder
        words = ["install", "--quiet", "--no-deps", "--upgrade", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", *words, "--target", str(folder), *PINNED]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines() or ["pip failed"]
            raise NotInArchiveError(f"clients from PyPI are not reached from here: {reason[-1]}")
        stamp.write_text(wanted)
    return folder
