# SPDX-License-Identifier: Apache-2.0
"""The frameworks' wheels from PyPI, unpacked into a folder of their own for the host's Python, at most once.

usage: python -m tests.nvidia.frameworks.wheels
fetches what is missing into kmod/build/nvidia/frameworks: 3 GB, unpacked 5 GB.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.nvidia.archive import STORE, NotInArchiveError

FOLDER = STORE / "frameworks"
# Of each framework; what they need comes with them. Built for CUDA 12, which drivers of 12.2 and 12.4 take.
PINNED = {
    "cupy": ("cupy-cuda12x==13.3.0", "numpy==2.2.6"),
    "torch": ("torch==2.5.1",),
}
SECONDS = 3600


def framework(name: str) -> Path:
    """Return the folder with a framework. Raises NotInArchiveError where PyPI is not reached."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder, stamp = FOLDER / name, FOLDER / f"{name}.pinned"
    wanted = "\n".join(PINNED[name])
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return folder
        words = ["install", "--quiet", "--upgrade", "--no-compile", "--only-binary", ":all:"]
        command = [sys.executable, "-m", "pip", *words, "--target", str(folder), *PINNED[name]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines() or ["pip failed"]
            raise NotInArchiveError(f"{name} from PyPI is not reached from here: {reason[-1]}")
        stamp.write_text(wanted)
    return folder


def clocks() -> Path:
    """Build the library to preload with which CUDA's runtime starts on a simulated card, and return it."""
    target, source = FOLDER / "libclocks.so", Path(__file__).with_name("clocks.c")
    part = target.with_suffix(".part")
    words = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(["gcc", *words, "-o", part, source, "-ldl"], check=True, timeout=60)
    part.rename(target)
    return target


def main() -> int:
    """Fetch all. Returns 1, and says why, where that fails."""
    try:
        for name in PINNED:
            print(framework(name))
    except NotInArchiveError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
