# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries and programs of one release, unpacked side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.nvidia.archive import STORE, Release, package, release

LIBRARIES = "usr/lib/x86_64-linux-gnu/nvidia/current"
PROGRAMS = "usr/lib/nvidia/current"
PACKAGES = ("nvidia-smi", "libnvidia-ml1")


@dataclass(frozen=True)
class Software:
    """Packages of one release; libraries has links to all their shared libraries, by soname."""

    release: Release
    libraries: Path
    programs: Path

    def environment(self) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": str(self.libraries),
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LC_ALL": "C.UTF-8",
        }


def link(target: Path, path: Path) -> None:
    """Make a link, or replace what is there by it, at once: other runs may be using it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.symlink_to(target)
    part.rename(path)


def software(version: str, packages: tuple[str, ...] = PACKAGES) -> Software:
    """Fetch packages of a release (archive.release) and return their files.

    Raises NotInArchiveError where the archive has them not.
    """
    chosen = release(version)
    folders = [package(name, chosen.debian) for name in packages]
    libraries, programs = (STORE / "software" / chosen.version / kind for kind in ("lib", "bin"))
    for kind, within in ((libraries, LIBRARIES), (programs, PROGRAMS)):
        kind.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            for file in sorted((folder / within).glob("*")) if (folder / within).is_dir() else ():
                link(file, kind / file.name)
    return Software(chosen, libraries, programs)
