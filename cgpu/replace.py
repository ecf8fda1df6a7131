# SPDX-License-Identifier: Apache-2.0
"""Files that are put in place all at once. For the engine and the tools; the hot paths only read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


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


def replace_kept(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file with its owner and mode kept; mode is that of a file that is made. Raises OSError.

    A link stays a link. What was written is on the disk when this returns.
    """
    target = Path(os.path.realpath(path))
    fd, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(content)
            with contextlib.suppress(FileNotFoundError):
                about = target.stat()
                os.fchown(fd, about.st_uid, about.st_gid)
                mode = about.st_mode & 0o7777
            os.fchmod(fd, mode)
            stream.flush()
            os.fsync(fd)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
