# SPDX-License-Identifier: Apache-2.0
"""Files that are put in place all at once. For the engine and the tools; the hot paths only read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have a folder's names on the disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_text(path: Path, text: str) -> None:
    """Put a file in place all at once, mode 0600: a reader never sees a part of it. Raises OSError."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(fd, "w") as stream:
            stream.write(text)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
