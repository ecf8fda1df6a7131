# SPDX-License-Identifier: Apache-2.0
"""The archive: made anew, for root's eyes only, of bounded size."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

from cgpu.errors import CgpuError

FOLDER = "cgpu-support"
MAX_TOTAL = 16 << 20


def pack(path: Path, members: Iterable[tuple[str, bytes]], made: float) -> list[str]:
    """Write the archive, mode 0600; return the names in it. Raises CgpuError; no file is left then.

    made: seconds since the epoch. What would make it larger than 16 MiB unpacked is left out.
    """
    try:
        # Never over a file, nor through a link, that somebody has put there.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise CgpuError(f"{path}: is there already; name another file: --output FILE") from error
    except OSError as error:
        raise CgpuError(f"{path}: cannot be made: {error.strerror}") from error
    try:
        with os.fdopen(fd, "wb") as stream:
            os.fchmod(fd, 0o600)
            return _write(stream, members, made)
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise CgpuError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def _write(stream: io.BufferedWriter, members: Iterable[tuple[str, bytes]], made: float) -> list[str]:
    names, left = [], MAX_TOTAL
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members:
            if len(content) > left:
                continue
            left -= len(content)
            about = tarfile.TarInfo(f"{FOLDER}/{name}")
            about.size, about.mode, about.mtime = len(content), 0o600, int(made)
            archive.addfile(about, io.BytesIO(content))
            names.append(name)
    return names
