# SPDX-License-Identifier: Apache-2.0
"""The journal's store: contents of files as they were, each under its SHA-256.

Root does what journal and store say, so nobody else may have written them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from cgpu import replace
from cgpu.errors import CgpuError
from cgpu.files import open_nofollow, read_fd

RELEASED = "released.json"  # beside the store: temporary settings, see steps/runtime.py
FILE_MODE = 0o600
FOLDER_MODE = 0o700
MAX_BYTES = 16 << 20
OTHERS_WRITE = 0o022


def digest(content: bytes) -> str:
    """Return the name of a content."""
    return hashlib.sha256(content).hexdigest()


class Store:
    """A folder of contents."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder; it is made with the first content."""
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Keep a content, on the disk when this returns; return its name. Raises OSError."""
        name = digest(content)
        path = self.folder / name
        try:
            self.get(name)
        except CgpuError:
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            replace.write(path, content, replace.for_new_content(None, FILE_MODE))
        return name

    def get(self, name: str) -> bytes:
        """Return a content. Raises CgpuError when it is not there, not root's, or not what its name says."""
        path = self.folder / name
        try:
            content = read_trusted(path, self.folder.parent.parent)
        except OSError as error:
            raise CgpuError(f"{path}: cannot be read ({error.strerror})") from error
        if digest(content) != name:
            raise CgpuError(f"{path}: is damaged: its content has not this SHA-256")
        return content

    def clear(self) -> None:
        """Remove all contents and the folder. Raises OSError."""
        if self.folder.is_symlink():
            self.folder.unlink()
        elif self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)
            self.folder.rmdir()


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
