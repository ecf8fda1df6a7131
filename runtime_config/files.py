# SPDX-License-Identifier: Apache-2.0
"""Settings files of container engines: read within bounds, and replaced as a whole by cgpu-runtime-config."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from cgpu import replace
from cgpu.errors import CgpuError
from cgpu.files import read_fd
from cgpu.node_files import FileEdit
from cgpu.runtime_config.oci_runtime.lowlevel import NAME as LAUNCHER_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cgpu.runtime_config.engines.engine import Desired

MAX_BYTES = 4 << 20


def read_bytes(path: Path, root: Path = Path("/")) -> bytes | None:
    """Return the content of a plain file, also through links; None when it is not there. Raises CgpuError."""
    try:
        target = _target(path, root)
        # O_NONBLOCK: a named pipe in the file's place must not block this process.
        fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise CgpuError(
                f"{path}: is a link to nothing: make its target, or remove it: rm {path}"
            ) from error
        return None
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise CgpuError(f"{path}: expected a plain file; look: ls -ld {path}")
        return read_fd(fd, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CgpuError(f"{path}: expected at most {MAX_BYTES} bytes") from error
        raise CgpuError(f"{path}: cannot be read ({error.strerror})") from error
    finally:
        os.close(fd)


def text_of(path: Path, raw: bytes | None) -> str:
    """Return a file's text, empty when it is not there. Raises CgpuError for what is not UTF-8."""
    try:
        return (raw or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise CgpuError(
            f"{path}: byte {error.start}: expected UTF-8 ({error.reason}); look: file {path}"
        ) from error


def read_text(path: Path, root: Path = Path("/")) -> str:
    """Return a file's text, empty when it is not there. Raises CgpuError."""
    return text_of(path, read_bytes(path, root))


def changes(path: Path, before: bytes | None, after: str | None) -> list[FileEdit]:
    """Return the edit from what is there to a text, None for no file; nothing when they are the same."""
    wanted = None if after is None else after.encode("utf-8")
    return [] if wanted == before else [FileEdit(path, before, wanted)]


def runtime_path(desired: Desired) -> str:
    """Return the runtime's path as settings name it. Raises CgpuError."""
    text = str(desired.runtime)
    # Our entries are found by the program's name. Not printable: bytes that are no text, too.
    known = desired.runtime.is_absolute() and desired.runtime.name == LAUNCHER_NAME
    if not known or not text.isprintable():
        raise CgpuError(f"runtime {text}: expected the absolute path of cgpu-container-runtime")
    return text


def apply(edits: Iterable[FileEdit]) -> None:
    """Make edits, each file all at once; after a failure those made before are undone. Raises CgpuError."""
    made: list[FileEdit] = []
    try:
        for edit in edits:
            if read_bytes(edit.path) != edit.before:
                raise CgpuError(f"{edit.path}: was changed by another program meanwhile: run this again")
            _put(edit, edit.after)
            made.append(edit)
    except BaseException:
        take_back(made)
        raise


def take_back(edits: Sequence[FileEdit]) -> None:
    """Put back what was there before edits. Raises CgpuError."""
    for edit in reversed(edits):
        _put(edit, edit.before)


def _target(path: Path, root: Path) -> Path:
    target = Path(os.path.realpath(path))
    top = Path(os.path.realpath(root))
    if not target.is_relative_to(top):
        raise CgpuError(f"{path}: is a link out of {root}, to {target}: copy the file there instead")
    return target


def _put(edit: FileEdit, content: bytes | None) -> None:
    target = Path(os.path.realpath(edit.path))
    try:
        if content is None:
            target.unlink(missing_ok=True)
        else:
            _make_folders(target.parent)
            _write(target, content, like=target, mode=edit.mode)
    except OSError as error:
        advice = (
            "; run it as root, such as by sudo" if isinstance(error, PermissionError) and os.geteuid() else ""
        )
        raise CgpuError(f"{target}: cannot be replaced ({error.strerror}){advice}") from error


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it, which others than root cannot write whatever the umask is."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    folder.mkdir()
    folder.chmod(0o755)


def _write(path: Path, content: bytes, *, like: Path, mode: int) -> None:
    meta = replace.for_new_content(replace.read(like, exact=False), mode)
    # No lock keeps another command from writing the same file at the same time.
    new = replace.temporary(path.with_name(f"{path.name}.{os.getpid()}"))
    replace.write(path, content, meta, exact=False, new=new)
