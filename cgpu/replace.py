# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced whole. Used by the engine and the tools; the hot paths only read.

A process killed in between leaves the old file or the new one, and a temporary one. A file that write() has
put in place is there after a power cut, too, and the name of its temporary file is known.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 4 << 20
SUFFIX = ".cgpu-new"
# The kernel makes these for a content; they must not be given to another one.
CONTENT_BOUND = ("security.ima", "security.evm")


@dataclass(frozen=True, slots=True)
class Meta:
    """A file's attributes."""

    mode: int
    uid: int
    gid: int
    xattrs: tuple[tuple[str, bytes], ...] = ()


def for_new_content(now: tuple[bytes, Meta] | None, mode: int) -> Meta:
    """Return the metadata for new content of a file that was read; mode: of one that was not there."""
    return now[1] if now else Meta(mode, os.geteuid(), os.getegid())


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


def temporary(path: Path) -> Path:
    """Return the name under which new content is written. No program reads such a name as settings."""
    return path.with_name(f".{path.name}{SUFFIX}")


def read(path: Path, *, exact: bool = True) -> tuple[bytes, Meta] | None:
    """Return a plain file's content and its metadata, None if there is no file. Raises OSError.

    exact: False leaves out extended attributes that the file system lists and does not return.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a plain file")
        content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise OSError(errno.EFBIG, f"has more than {MAX_BYTES} bytes")
        mode = stat.S_IMODE(status.st_mode)
        return content, Meta(mode, status.st_uid, status.st_gid, _xattrs(fd, exact=exact))


def write(path: Path, content: bytes, meta: Meta, *, exact: bool = True, new: Path | None = None) -> None:
    """Put a file in place. Its folder is there; a link of that name would be replaced. Raises OSError.

    exact: False passes over extended attributes that the file system refuses. new: the temporary file, for a
    caller that holds no lock against others that write the same file; by default temporary().
    """
    new = new or temporary(path)
    new.unlink(missing_ok=True)
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            _set_meta(fd, meta, exact=exact)
            os.fsync(fd)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, and the remains of a killed write. Raises OSError."""
    tidy(path)
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_folder(path.parent)


def tidy(path: Path) -> None:
    """Remove what a killed write has left. Raises OSError."""
    # A read-only file system refuses to remove even what does not exist.
    if os.path.lexists(temporary(path)):
        temporary(path).unlink(missing_ok=True)


def tidy_folder(folder: Path, names: str = "*") -> None:
    """Remove what killed writes have left of files in a folder. names: of these files, as a pattern.

    For a caller that keeps all others from writing there. Raises OSError.
    """
    for path in folder.glob(f".{names}{SUFFIX}"):
        path.unlink(missing_ok=True)


def _set_meta(fd: int, meta: Meta, *, exact: bool) -> None:
    os.fchown(fd, meta.uid, meta.gid)
    os.fchmod(fd, meta.mode)
    for name, value in meta.xattrs:
        try:
            os.setxattr(fd, name, value)
        except OSError:
            if exact:
                raise


def _xattrs(fd: int, *, exact: bool) -> tuple[tuple[str, bytes], ...]:
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno == errno.ENOTSUP or not exact:
            return ()
        raise
    found: list[tuple[str, bytes]] = []
    for name in sorted(set(names).difference(CONTENT_BOUND)):
        try:
            found.append((name, os.getxattr(fd, name)))
        except OSError:
            if exact:
                raise
    return tuple(found)
