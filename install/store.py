# SPDX-License-Identifier: Apache-2.0
"""The record of an installation: which steps are ours, and each file as it was before its first change.

/var/lib/cgpu/install/ (0700): record.json, and before/, which has each changed file under a name made of its
path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from cgpu import __version__, replace
from cgpu.errors import CgpuError
from cgpu.install import places
from cgpu.install.places import on_node, target
from cgpu.install.trusted import check_owner, read_trusted
from cgpu.node_files import FileEdit, below, diff
from cgpu.replace import Meta, sync_folder

FORMAT = 1
NAME = "record.json"
SAVED = "before"
FOLDER_MODE = 0o755
PRIVATE_MODE = 0o700
FILE_MODE = 0o600
COMMANDS = ("", "install", "uninstall")
# The message names no editor: "cgpu config set" and cgpu-runtime-config edit these files, too.
MEANWHILE = "was changed meanwhile; run the same command again"
Command = Literal["", "install", "uninstall"]
Found = tuple[bytes, Meta] | None


def digest(found: Found) -> str | None:
    """Return the SHA-256 of what was read, None where there is no file."""
    return None if found is None else digest_of(found[0])


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a content."""
    return hashlib.sha256(content).hexdigest()


@dataclass(slots=True)
class Entry:
    """One file that a step has changed, by digests of its contents; None stands for no file.

    before, meta: the saved file. ours: what we have written, the latest last. is_edited: somebody else wrote
    between two changes of ours, so the saved file is not the way back. between: temporary settings.
    """

    step: str
    before: str | None
    meta: Meta | None
    ours: list[str | None] = field(default_factory=list)
    is_edited: bool = False
    between: str | None = None

    def is_foreign(self, now: str | None) -> bool:
        """Say whether a content is neither ours nor what was before. now: its digest."""
        if now == self.before or now is None:
            return False
        return self.is_edited or now not in self.ours

    def to_json(self) -> dict[str, Any]:
        """Return it for the record."""
        return {**asdict(self), "meta": None if self.meta is None else self.meta.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return what was kept. Raises KeyError, TypeError or ValueError."""
        meta = None if document["meta"] is None else Meta.from_json(document["meta"])
        return cls(
            str(document["step"]), document["before"], meta, list(document["ours"]),
            bool(document["is_edited"]), document["between"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Final:
    """A file as it is to be. name: what the node calls it; path: the file; content None: not there."""

    name: str
    path: Path
    content: bytes | None
    meta: Meta

    def put(self) -> None:
        """Put it in place. Raises CgpuError."""
        with naming(self.name):
            if self.content is None:
                replace.remove(self.path)
            else:
                replace.write(self.path, self.content, self.meta)

    def diff(self) -> Iterator[str]:
        """Yield the lines of what putting it in place would change. Raises CgpuError."""
        with naming(self.name):
            now = replace.read(self.path)
        yield from diff(self.name, now[0] if now else None, self.content)


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
        document = {
            "format": FORMAT,
            "version": __version__,
            "command": self.command,
            "facts": self.facts,
            "steps": self.steps,
            "unfinished": self.unfinished,
            "folders": self.folders,
            "files": {path: entry.to_json() for path, entry in self.files.items()},
        }
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
        if self.is_there:
            return
        saved = self.folder / SAVED
        if saved.is_symlink():
            saved.unlink()
        elif saved.is_dir():
            shutil.rmtree(saved)
        replace.temporary(self.folder / NAME).unlink(missing_ok=True)
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

    def paths_of(self, step: str) -> list[str]:
        """Return the files that a step has changed, the latest first."""
        return [path for path, entry in self.files.items() if entry.step == step][::-1]

    # --- files ---

    def write(self, step: str, edits: Sequence[FileEdit]) -> list[Final]:
        """Save what is there where it was not saved yet, then make the edits; return the files as found.

        Raises CgpuError or OSError.
        """
        found = [self._save_before(step, edit) for edit in edits]
        self.save()
        for edit, before in zip(edits, found, strict=True):
            for folder in _missing(self.root, before.path.parent):
                _make_folder(below(self.root, folder))
            meta = dataclasses.replace(before.meta, mtime_ns=None)
            Final(before.name, before.path, edit.after, meta).put()
        return found

    def lend(self, step: str, final: Final, edit: FileEdit) -> None:
        """Put temporary settings in place, after saving those that follow. Raises CgpuError or OSError."""
        with naming(final.name):
            now = replace.read(final.path)
            if now is None or now[0] != edit.before or edit.after is None:
                raise CgpuError(f"{final.name}: {MEANWHILE}")
            between = digest_of(edit.after)
            # A file that somebody has edited becomes what follows, and not what it was before.
            known = self.files.get(final.name)
            ours = known.ours if known is not None and not self.is_edited(final.name) else []
            before = None if final.content is None else digest_of(final.content)
            if final.content is not None:
                self._keep(final.name, final.content)
            self.files[final.name] = Entry(step, before, final.meta, [*ours, between], between=between)
            self.save()
            replace.write(final.path, edit.after, now[1])

    def is_lent(self, path: str) -> bool:
        """Return whether a file has temporary settings. Raises CgpuError."""
        entry = self.files.get(path)
        return entry is not None and entry.between is not None and digest(self._read(path)) == entry.between

    def edited(self, step: str) -> list[str]:
        """Return the files of a step that somebody else has edited since. Raises CgpuError."""
        return [path for path in self.paths_of(step)[::-1] if self.is_edited(path)]

    def says_undone(self, step: str) -> str:
        """Return what becomes of the files of a step that nobody has edited; empty where there are none."""
        edited = self.edited(step)
        left = [path for path in self.paths_of(step)[::-1] if path not in edited]
        restores = any(self.files[path].before for path in left)
        return f"{'restores' if restores else 'removes'} {in_words(left)}" if left else ""

    def is_edited(self, path: str) -> bool:
        """Return whether somebody else has written to a file since our first change. Raises CgpuError."""
        entry = self.files.get(path)
        return entry is not None and entry.is_foreign(digest(self._read(path)))

    def final(self, path: str) -> Final | None:
        """Return a file as it was before; None where it is so, was removed or edited. Raises CgpuError."""
        entry, now = self.files[path], self._read(path)
        found = digest(now)
        if found == entry.before or (now is None and None not in entry.ours) or entry.is_foreign(found):
            return None
        content = None if entry.before is None else self._saved(path, entry.before)
        # Owner and mode as they may have been set since.
        meta = now[1] if now is not None else entry.meta
        meta = meta or replace.for_new_content(None, FILE_MODE)
        time = entry.meta.mtime_ns if entry.meta is not None else None
        return Final(path, target(self.root, path), content, dataclasses.replace(meta, mtime_ns=time))

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

    def _read(self, path: str) -> Found:
        with naming(path):
            return replace.read(target(self.root, path))

    def _save_before(self, step: str, edit: FileEdit) -> Final:
        """Record an edit to come; return the file as it is now."""
        path = on_node(self.root, edit.path)
        with naming(path):
            real = target(self.root, path)
            now = replace.read(real) if real.parent.is_dir() else None
            if (now[0] if now else None) != edit.before:
                raise CgpuError(f"{path}: {MEANWHILE}")
            entry = self.files.get(path)
            if entry is None:
                if now is not None:
                    self._keep(path, now[0])
                entry = self.files[path] = Entry(step, digest(now), now[1] if now else None)
            elif digest(now) not in (entry.before, *entry.ours):
                entry.is_edited = True
            after = None if edit.after is None else digest_of(edit.after)
            entry.ours = [*(one for one in entry.ours if one != after), after]
            self.folders += [name for name in _missing(self.root, real.parent) if name not in self.folders]
        return Final(path, real, edit.before, now[1] if now else replace.for_new_content(None, edit.mode))

    def _keep(self, path: str, content: bytes) -> None:
        self._make_folder()
        saved = self.folder / SAVED
        saved.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        replace.write(saved / _name(path), content, replace.for_new_content(None, FILE_MODE))

    def _saved(self, path: str, expected: str) -> bytes:
        saved = self.folder / SAVED / _name(path)
        try:
            content = read_trusted(saved, self.folder.parent)
        except OSError as error:
            raise CgpuError(f"{saved}: cannot be read ({error.strerror})") from error
        if digest_of(content) != expected:
            raise CgpuError(f"{saved}: is damaged: it is not what {path} was before")
        return content

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


def in_words(paths: Sequence[str]) -> str:
    """Return files for a line: the first, and how many more."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _name(path: str) -> str:
    """Return the name under which a file is saved: its path, with what a name cannot have as %XX."""
    return quote(path.lstrip("/"), safe="")


def _missing(root: Path, folder: Path) -> list[str]:
    """Return the folders that are not there, outermost first, as the node names them."""
    found: list[str] = []
    top = Path(os.path.realpath(root))
    while not folder.exists() and folder != top:
        found.append(on_node(top, folder))
        folder = folder.parent
    return found[::-1]


def _make_folder(path: Path) -> None:
    with naming(str(path)):
        try:
            path.mkdir(mode=FOLDER_MODE)
        except FileExistsError:
            return
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
    files = {path: Entry.from_json(entry) for path, entry in document["files"].items()}
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
    folder, home = path.parent, path.parent.parent
    raw = read_trusted(path, home)
    for place in (home, folder):
        check_owner(place, place.stat(), home)
    with contextlib.suppress(FileNotFoundError):
        check_owner(folder / SAVED, (folder / SAVED).lstat(), home)
    return raw
