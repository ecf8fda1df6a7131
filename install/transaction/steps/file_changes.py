# SPDX-License-Identifier: Apache-2.0
"""Files that are made, edited or removed, and the folders that they need."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cgpu import replace
from cgpu.errors import CgpuError
from cgpu.install.places import on_node, target
from cgpu.install.transaction.steps import Context
from cgpu.install.transaction.store import digest
from cgpu.node_files import FileEdit, below, diff
from cgpu.replace import Meta, sync_folder

FOLDER_MODE = 0o755
FILE_MODE = 0o644
# Who has edited a file is not known: "cgpu config set" and cgpu-runtime-config do so, too.
MEANWHILE = "was changed meanwhile; run the same command again"
SINCE = "was edited since cgpu install wrote it"


@dataclass(frozen=True, slots=True)
class Change:
    """One file by the digests of its content before and after; None: it is not there.

    meta: of the file before. mode: of one that is made.
    """

    path: str
    before: str | None
    after: str | None
    mode: int
    meta: Meta | None

    def to_json(self) -> dict[str, Any]:
        """Return it for the record."""
        return {**dataclasses.asdict(self), "meta": None if self.meta is None else self.meta.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return what was kept."""
        meta = None if document["meta"] is None else Meta.from_json(document["meta"])
        path = document["path"]
        if not isinstance(path, str) or not path.startswith("/"):
            raise ValueError(f"path {path!r}: expected an absolute one")
        return cls(path, document["before"], document["after"], int(document["mode"]), meta)


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


@dataclass(frozen=True, slots=True)
class FileChanges:
    """A step: folders, outermost first, and files. owner: the engine that reads them, empty for our files."""

    title: str
    owner: str
    folders: tuple[str, ...]
    changes: tuple[Change, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Contents to come, by digest. Not kept: a record is only taken back."""

    @property
    def undo_title(self) -> str:
        named = [change.path for change in self.changes]
        verb = "restores" if any(change.before for change in self.changes) else "removes"
        return f"{verb} {named[0]}" + (f" and {len(named) - 1} more" if len(named) > 1 else "")

    def announced(self, context: Context) -> str:
        """Return what taking it back does to the files as they are now, for one line. Raises CgpuError."""
        edited = [change.path for change in self.changes if self._is_edited(context, change)]
        if edited and self.owner:
            return f"takes the runtime cgpu out of {', '.join(edited)}"
        if edited and len(edited) == len(self.changes):
            return f"leaves {', '.join(edited)} as edited"
        return self.undo_title

    def _is_edited(self, context: Context, change: Change) -> bool:
        with naming(change.path):
            now = _now(context, target(context.root, change.path))
        return now is not None and _state(now) not in (change.before, change.after)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "files",
            "title": self.title,
            "owner": self.owner,
            "folders": list(self.folders),
            "changes": [change.to_json() for change in self.changes],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        folders = tuple(str(folder) for folder in document["folders"])
        changes = tuple(map(Change.from_json, document["changes"]))
        return cls(str(document["title"]), str(document["owner"]), folders, changes)

    def apply(self, context: Context) -> None:
        """Make the folders and write the files. Raises CgpuError."""
        for folder in self.folders:
            _make_folder(below(context.root, folder))
        for change in self.changes:
            with naming(change.path):
                self._apply(context, change)

    def _apply(self, context: Context, change: Change) -> None:
        path = target(context.root, change.path)
        now = replace.read(path)
        state = _state(now)
        if state == change.after:
            return
        if state != change.before:
            raise CgpuError(f"{change.path}: {MEANWHILE}")
        if change.after is None:
            replace.remove(path)
        else:
            replace.write(path, self.contents[change.after], replace.for_new_content(now, change.mode))

    def revert(self, context: Context) -> None:
        """Put the files back as they were, and remove folders that are empty. Raises CgpuError.

        What was edited since by others stays, without the keys of the owner.
        """
        self.tidy(context)
        for last in self.finals(context):
            last.put()
        self.remove_folders(context)

    def tidy(self, context: Context) -> None:
        """Remove what a killed run has left of files on their way. Raises CgpuError."""
        for change in self.changes:
            with naming(change.path):
                path = target(context.root, change.path)
                replace.tidy(path)

    def finals(self, context: Context) -> list[Final]:
        """Return what has yet to be put in place for all to be as before. Raises CgpuError."""
        found: list[Final] = []
        for change in reversed(self.changes):
            with naming(change.path):
                last = self._final(context, change)
            if last is not None:
                found.append(last)
        return found

    def remove_folders(self, context: Context) -> None:
        """Remove the folders that were made, where they are empty. Raises CgpuError."""
        for folder in reversed(self.folders):
            _remove_folder(context, folder)

    def _final(self, context: Context, change: Change) -> Final | None:
        path = target(context.root, change.path)
        now = _now(context, path)
        state = _state(now)
        if state == change.before or (now is None and change.after is not None):
            return None
        if state == change.after:
            content = None if change.before is None else context.store.get(change.before)
            return Final(change.path, path, content, _old_meta(change, now))
        for edit in self._without_our_keys(context, change):
            context.note(f"{change.path}: {SINCE}; only the runtime cgpu is taken out")
            return Final(change.path, path, edit.after, replace.for_new_content(now, FILE_MODE))
        if not self.owner:
            context.note(f"{change.path}: {SINCE}; it stays (rm {change.path} removes it)")
        return None

    def undo_show(self, context: Context) -> Iterator[str]:
        """Yield the diffs that taking it back would make. Raises CgpuError."""
        for last in self.finals(context):
            now = _now(context, last.path)
            yield from diff(last.name, now[0] if now else None, last.content)
            context.undone[last.path] = None if last.content is None else (last.content, last.meta)

    def _without_our_keys(self, context: Context, change: Change) -> list[FileEdit]:
        if not self.owner:
            return []
        edits = context.engine(self.owner).plan_remove(context.root)
        return [edit for edit in edits if on_node(context.root, edit.path) == change.path]


@dataclass(frozen=True, slots=True)
class FilesPlan:
    """Edits to come. brief: said by --dry-run in place of the diffs of files that are new."""

    title: str
    edits: tuple[FileEdit, ...]
    owner: str = ""
    brief: str = ""

    def show(self, context: Context) -> Iterator[str]:
        """Yield the diffs."""
        if self.brief:
            yield f"+ {self.brief}"
        for edit in self.edits:
            if not self.brief or edit.before is not None:
                yield from diff(on_node(context.root, edit.path), edit.before, edit.after)

    def prepare(self, context: Context) -> FileChanges:
        """Keep the contents that there are, and what belongs to them. Raises CgpuError."""
        changes: list[Change] = []
        folders: list[str] = []
        contents: dict[str, bytes] = {}
        for edit in self.edits:
            path = on_node(context.root, edit.path)
            with naming(path):
                real = target(context.root, path)
                now = replace.read(real) if real.parent.is_dir() else None
                if (now[0] if now else None) != edit.before:
                    raise CgpuError(f"{path}: {MEANWHILE}")
                before = None if now is None else context.store.put(now[0])
            after = None if edit.after is None else digest(edit.after)
            if edit.after is not None and after is not None:
                contents[after] = edit.after
            changes.append(Change(path, before, after, edit.mode, now[1] if now else None))
            folders += [name for name in _missing(context.root, real.parent) if name not in folders]
        return FileChanges(self.title, self.owner, tuple(folders), tuple(changes), contents)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn an OSError into one line that names the file."""
    try:
        yield
    except OSError as error:
        raise CgpuError(f"{path}: cannot be changed: {error.strerror or error}") from error


def _now(context: Context, path: Path) -> tuple[bytes, Meta] | None:
    return context.undone[path] if path in context.undone else replace.read(path)


def _state(now: tuple[bytes, Meta] | None) -> str | None:
    return None if now is None else digest(now[0])


def _old_meta(change: Change, now: tuple[bytes, Meta] | None) -> Meta:
    """Return the metadata for the old content; owner and mode as they may have been set since."""
    kept = now[1] if now is not None else change.meta
    if kept is None:
        return replace.for_new_content(None, change.mode)
    return dataclasses.replace(kept, mtime_ns=change.meta.mtime_ns if change.meta is not None else None)


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


def _remove_folder(context: Context, folder: str) -> None:
    path = below(context.root, folder)
    if not path.exists():  # a read-only file system refuses to remove even what does not exist
        return
    with naming(folder):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            context.note(f"{folder}: is not empty; it stays")
            return
        sync_folder(path.parent)
