# SPDX-License-Identifier: Apache-2.0
"""Files by which root is told what to do, and which nobody else may have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.files import open_nofollow, read_fd

MAX_BYTES = 16 << 20
OTHERS_WRITE = 0o022


def read_trusted(path: Path, home: Path) -> bytes:
    """Return what a file holds. Raises OSError; CgpuError where others than root may have written it.

    home: the folder that the advice is about.
    """
    fd = open_nofollow(path)
    try:
        check_owner(path, os.fstat(fd), home)
        return read_fd(fd, MAX_BYTES)
    finally:
        os.close(fd)


def check_owner(path: Path, about: os.stat_result, home: Path) -> None:
    """Raise CgpuError where others than root may have written it, or where it is a link."""
    if stat.S_ISLNK(about.st_mode):
        raise CgpuError(f"{path}: is a link, and none of the record is: look where it leads, then: rm {path}")
    if about.st_uid not in (0, os.geteuid()) or about.st_mode & OTHERS_WRITE:
        raise CgpuError(
            f"{path}: owner {about.st_uid}, mode {about.st_mode & 0o7777:04o}: others than root may have "
            f"written what root is to do: look at {path}, then: "
            f"chown -R root:root {home}; chmod -R go-w {home}"
        )
