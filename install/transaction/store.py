# SPDX-License-Identifier: Apache-2.0
"""The record's store: contents of files as they were, each under its SHA-256."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.install.transaction import atomic, owned

RELEASED = "released.json"  # beside the store: settings in between, see steps/runtime.py
FILE_MODE = 0o600
FOLDER_MODE = 0o700


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
            atomic.write(path, content, atomic.Meta(FILE_MODE, os.geteuid(), os.getegid()))
        return name

    def get(self, name: str) -> bytes:
        """Return a content. Raises CgpuError when it is not there, not root's, or not what its name says."""
        path = self.folder / name
        try:
            content = owned.read(path, self.folder.parent.parent)
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
