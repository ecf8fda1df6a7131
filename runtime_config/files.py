# SPDX-License-Identifier: Apache-2.0
"""Settings files of container engines: read, and replaced as a whole after a copy of the original is made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cgpu.errors import CgpuError

BACKUP_SUFFIX = ".before-cgpu"
MAX_BYTES = 4 << 20


def read_text(path: Path) -> str:
    """Return a file's text, empty when it does not exist. Raises CgpuError."""
    try:
        if path.exists() and path.stat().st_size > MAX_BYTES:
            raise CgpuError(f"{path}: at most {MAX_BYTES} bytes are accepted")
        return _read(path)
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise CgpuError(f"{path}: UTF-8 is accepted ({error.reason})") from error
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read ({error.strerror})") from error


def replace_text(path: Path, text: str) -> None:
    """Replace a file's text with its owner and mode kept; an empty text removes the file. Raises CgpuError.

    The first time, what was there is kept beside it under BACKUP_SUFFIX. A link stays a link.
    """
    target = Path(os.path.realpath(path))
    try:
        _back_up(target)
        if text:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, text)
        else:
            target.unlink(missing_ok=True)
    except OSError as error:
        raise CgpuError(f"{target}: cannot be replaced ({error.strerror})") from error


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:  # line ends stay as they are
        return file.read()


def _back_up(target: Path) -> None:
    backup = target.with_name(target.name + BACKUP_SUFFIX)
    if target.exists() and not backup.exists():
        _write(backup, _read(target), like=target)


def _write(target: Path, text: str, like: Path | None = None) -> None:
    model = like or target
    with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(text.encode("utf-8"))
            file.flush()
            if model.exists():
                status = model.stat()
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
            else:
                os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
