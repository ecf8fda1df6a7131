# SPDX-License-Identifier: Apache-2.0
"""The frameworks' wheels from PyPI, unpacked into a folder of their own for the host's Python, at most once.

usage: python -m tests.nvidia.frameworks.wheels
fetches what is missing into kmod/build/nvidia/frameworks: 3 GB, unpacked 5 GB.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.nvidia.archive import STORE, NotInArchiveError
from tests.nvidia.pypi import fetched

FOLDER = STORE / "frameworks"
# Wheels of each framework; their dependencies come with them. Built for CUDA 12, which drivers of 12.2 and
# 12.4 take.
PINNED = {
    "cupy": ("cupy-cuda12x==13.3.0", "numpy==2.2.6"),
    "torch": ("torch==2.5.1",),
}
SECONDS = 3600


def framework(name: str) -> Path:
    """Return the folder with a framework. Raises NotInArchiveError where PyPI is not reached."""
    options = ("--no-compile", "--only-binary", ":all:")
    return fetched(FOLDER / name, FOLDER / f"{name}.pinned", PINNED[name], *options, seconds=SECONDS)


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
