# SPDX-License-Identifier: Apache-2.0
"""The record of an installation: which steps are ours, and what we have written into which files.

/var/lib/cgpu/install/ (0700): record.json, and before/, which has files as they were before our first change,
under a name made of its path. before/ is for people: each step itself takes back what it has done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from cgpu import __version__, replace
from cgpu.errors import CgpuError
from cgpu.files import open_nofollow, read_fd
from cgpu.install import places
from cgpu.install.places import on_node, target
from cgpu.node_files import FileEdit, below
from cgpu.replace import sync_folder

FORMAT = 1
NAME = "record.json"
SAVED = "before"
MAX_BYTES = 16 << 20
FOLDER_MODE = 0o755
PRIVATE_MODE = 0o700
FILE_MODE = 0o600
OTHERS_WRITE = 0o022
COMMANDS = ("", "install", "uninstall")
Command = Literal["", "install", "uninstall"]


@dataclass(slots=True)
class Entry:
    """One file that a step has changed. ours: digests of the contents that we have written."""

    step: str
    ours: list[str]


@dataclass(slots=True)
class Store:
    """The record. command: the one that has not come to its end.

    steps: what was begun, in its order; unfinished: those of them that a killed or failed command was at.
    folders: those that were made, outermost first.
    """

    root: Path
    is_there: bool = False
    command: Command = ""
    steps: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    files: dict[str, Entry] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return the folder of the record."""
        return below(self.root, places.RECORD)

    @classmethod
    def load(cls, root: Path) -> Self:
        """Read the record, empty where there is none. Raises CgpuError for a damaged or foreign one."""
        path = below(root, places.RECORD) / NAME
        try:
            raw = _read_record(path)
        except FileNotFoundError:
            return cls(root)
        except OSError as error:
            raise CgpuError(f"{path}: cannot be read ({error.strerror or error}); run it as root") from error
        try:
            return cls(root, is_there=True, **_parse(json.loads(raw)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CgpuError(
                f"{path}: is not a record of this version ({type(error).__name__}: {error}); the files as "
                f"they were are in {path.parent / SAVED}: put them back by hand, then remove {path.parent}"
            ) from error

    def save(self) -> None:
        """Have the record on the disk. Raises OSError."""
        self._make_folder()
        kept = {name: value for name, value in asdict(self).items() if name not in ("root", "is_there")}
        document = {"format": FORMAT, "version": __version__, **kept}
        text = json.dumps(document, indent=1) + "\n"
        replace.write(self.folder / NAME, text.encode(), replace.for_new_content(None, FILE_MODE))
        self.is_there = True

    def delete(self) -> None:
        """Remove record and saved files; what others have put there stays. Raises OSError."""
        replace.remove(self.folder / NAME)
        self.is_there = False
        self.sweep()

    def sweep(self) -> None:
        """Remove what lies beside a record, where there is no record. Raises OSError."""
        saved = self.folder / SAVED
        if saved.is_symlink():
            saved.unlink()
        elif saved.is_dir():
            shutil.rmtree(saved)
        replace.tidy(self.folder / NAME)
        for path in (self.folder, self.folder.parent):
            with contextlib.suppress(OSError):
                path.rmdir()

    # --- steps ---

    def start(self, command: Command, step: str) -> None:
        """Record that a command is at a step, before it changes anything. Raises OSError."""
        self.command = command
        for known in (self.steps, self.unfinished):
            if step not in known:
                known.append(step)
        self.save()

    def end(self, unfinished: Sequence[str] = ()) -> None:
        """Record that a command has ended. unfinished: steps that are left to a later one. Raises OSError."""
        self.unfinished = list(unfinished)
        self.command = "install" if unfinished else ""
        self.save()

    def drop(self, step: str) -> None:
        """Forget a step that was undone, and its files. Raises OSError."""
        self.steps.remove(step)
        self.unfinished.remove(step)
        self.files = {path: entry for path, entry in self.files.items() if entry.step != step}
        self.save()

    # --- files ---

    def paths_of(self, step: str) -> list[str]:
        """Return the files that a step has changed."""
        return [path for path, entry in self.files.items() if entry.step == step]

    def is_ours(self, path: str, content: bytes) -> bool:
        """Return whether we have written a content of a file."""
        entry = self.files.get(path)
        return entry is not None and _digest(content) in entry.ours

    def write(self, step: str, edits: Sequence[FileEdit]) -> None:
        """Record edits, and save each file that has not been saved yet; then make them.

        Raises CgpuError or OSError.
        """
        for edit in edits:
            self._record(step, on_node(self.root, edit.path), edit)
        self.save()
        for edit in edits:
            path = on_node(self.root, edit.path)
            real = target(self.root, path)
            with naming(path):
                if edit.after is None:
                    replace.remove(real)
                    continue
                for folder in _missing(self.root, real.parent):
                    _make_folder(below(self.root, folder))
                meta = replace.for_new_content(replace.read(real), edit.mode)
                replace.write(real, edit.after, meta)

    def _record(self, step: str, path: str, edit: FileEdit) -> None:
        real = target(self.root, path)
        with naming(path):
            now = replace.read(real) if real.parent.is_dir() else None
            if (now[0] if now else None) != edit.before:
                # "cgpu config set" and cgpu-runtime-config edit these files, too.
                raise CgpuError(f"{path}: was changed meanwhile; run the same command again")
            if path not in self.files:
                if now is not None:
                    self._keep(path, now[0])
                self.files[path] = Entry(step, [])
            if edit.after is not None and not self.is_ours(path, edit.after):
                self.files[path].ours.append(_digest(edit.after))
            self.folders += [name for name in _missing(self.root, real.parent) if name not in self.folders]

    def tidy(self) -> None:
        """Remove what a killed command has left of files on their way. Raises CgpuError."""
        for path in self.files if self.command else ():
            with naming(path):
                replace.tidy(target(self.root, path))

    def remove_folders(self) -> Iterator[str]:
        """Remove the folders that were made and are empty; yield those that stay. Raises CgpuError."""
        for folder in reversed(self.folders):
            path = below(self.root, folder)
            if not path.is_dir():
                continue
            with naming(folder):
                if any(path.iterdir()):
                    yield folder
                    continue
                path.rmdir()
                sync_folder(path.parent)

    def _keep(self, path: str, content: bytes) -> None:
        self._make_folder()
        saved = self.folder / SAVED
        saved.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        place = saved / quote(path.lstrip("/"), safe="")
        replace.write(place, content, replace.for_new_content(None, FILE_MODE))

    def _make_folder(self) -> None:
        """Make the record's folder. Others write neither there nor beside it, whatever the umask is."""
        self.folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.folder.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        self.folder.chmod(PRIVATE_MODE)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn an OSError into one line that names the file."""
    try:
        yield
    except OSError as error:
        raise CgpuError(f"{path}: cannot be changed: {error.strerror or error}") from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _missing(root: Path, folder: Path) -> list[str]:
    """Return the folders that are not there, outermost first, as the node names them."""
    found: list[str] = []
    top = Path(os.path.realpath(root))
    while not folder.exists() and folder != top:
        found.append(on_node(top, folder))
        folder = folder.parent
    return found[::-1]


def _make_folder(path: Path) -> None:
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    path.chmod(FOLDER_MODE)  # whatever the umask is
    sync_folder(path.parent)


def _parse(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record. Raises KeyError, TypeError or ValueError."""
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']}, expected {FORMAT}")
    if document["command"] not in COMMANDS:
        raise ValueError(f"command {document['command']!r}")
    facts = dict(document["facts"])
    if not isinstance(facts.get("runtimes", []), list):
        raise TypeError("facts: runtimes: expected a list")
    files = {path: Entry(str(one["step"]), list(one["ours"])) for path, one in document["files"].items()}
    folders = [str(folder) for folder in document["folders"]]
    if not all(path.startswith("/") for path in (*files, *folders)):
        raise ValueError("files: expected absolute paths")
    return {
        "command": document["command"],
        "steps": [str(step) for step in document["steps"]],
        "unfinished": [str(step) for step in document["unfinished"]],
        "files": files,
        "folders": folders,
        "facts": facts,
    }


def _read_record(path: Path) -> bytes:
    """Return what the record holds. Raises OSError; CgpuError where others than root may have written it."""
    home = path.parent.parent
    fd = open_nofollow(path)
    try:
        for place, about in (
            (path, os.fstat(fd)), (path.parent, path.parent.lstat()), (home, home.lstat())
        ):  # fmt: skip
            _check_owner(place, about, home)
        return read_fd(fd, MAX_BYTES)
    finally:
        os.close(fd)


def _check_owner(place: Path, about: os.stat_result, home: Path) -> None:
    """Raise CgpuError where others than root may have written what tells root what to do."""
    is_link = stat.S_ISLNK(about.st_mode)
    if is_link or about.st_uid not in (0, os.geteuid()) or about.st_mode & OTHERS_WRITE:
        raise CgpuError(
            f"{place}: owner {about.st_uid}, mode {about.st_mode & 0o7777:04o}: others than root may have "
            f"written what root is to do: look at {place}, then: "
            f"chown -R root:root {home}; chmod -R go-w {home}"
        )
