# SPDX-License-Identifier: Apache-2.0
"""The inputs that together reach most of the core: one archive, with a folder for each fuzz target."""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parent / "corpus.tar.xz"
MOST_BYTES = 1 << 20  # of all targets' inputs


def target_name(program: str) -> str:
    """Return the folder of a target's inputs in the archive."""
    return program.removeprefix("fuzz_")


def unpack(folder: Path, archive: Path = ARCHIVE) -> Path:
    """Unpack the inputs of every target below a folder, and return it."""
    with tarfile.open(archive, "r:xz") as packed:
        # Debian 12's Python 3.11 has no filters; newer ones warn where none is chosen.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        packed.extractall(folder)  # noqa: S202, the archive is this project's own
    return folder


def size(folder: Path) -> int:
    """Return how many bytes the inputs below a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def pack(folder: Path, archive: Path = ARCHIVE) -> None:
    """Replace the archive by what lies below a folder; equal inputs make equal bytes."""
    fresh = archive.with_suffix(".new")
    with tarfile.open(fresh, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as packed:
        for path in sorted(folder.rglob("*")):
            packed.add(path, str(path.relative_to(folder)), recursive=False, filter=_anonymous)
    fresh.replace(archive)
