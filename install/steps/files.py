# SPDX-License-Identifier: Apache-2.0
"""Files that are ours as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from cgpu import replace
from cgpu.install.places import on_node, target
from cgpu.install.steps.step import Context, Step
from cgpu.install.store import naming
from cgpu.node_files import FileEdit, below, diff

SINCE = "was edited since cgpu install wrote it"


@dataclass(slots=True)
class Files(Step):
    """Some files. wanted: their contents by path. doing: the title; brief: shown for files that are new."""

    kind: ClassVar[str] = "files"

    wanted: Mapping[str, bytes] = field(default_factory=dict)
    doing: str = ""
    brief: str = ""

    @property
    def title(self) -> str:
        return self.doing or f"makes {_named(list(self.wanted))}"

    def is_done(self, context: Context, /) -> bool:
        return not self.edits(context)

    def edits(self, context: Context, /) -> Sequence[FileEdit]:
        """Return what is missing. A file that was edited since stays, with a word. Raises CgpuError."""
        found = []
        for path, after in self.wanted.items():
            with naming(path):
                now = replace.read(target(context.root, path))
            before = now[0] if now else None
            if before == after:
                continue
            if context.store.is_edited(path):
                context.note(f"{path}: {SINCE}; it stays as it is")
                continue
            found.append(FileEdit(below(context.root, path), before, after))
        return found

    def show(self, context: Context, /) -> Iterator[str]:
        if self.brief:
            yield f"+ {self.brief}"
        for edit in self.edits(context):
            if not self.brief or edit.before is not None:
                yield from diff(on_node(context.root, edit.path), edit.before, edit.after)

    def do(self, context: Context, /) -> None:
        context.store.write(self.name, self.edits(context))

    def undo_title(self, context: Context, /) -> str:
        paths = context.store.paths_of(self.name)[::-1]
        edited = [path for path in paths if context.store.is_edited(path)]
        if edited and edited == paths:
            return f"leaves {', '.join(edited)} as edited"
        left = [path for path in paths if path not in edited]
        restores = any(context.store.files[path].before for path in left)
        return f"{'restores' if restores else 'removes'} {_named(left)}" if left else ""

    def show_undo(self, context: Context, /) -> Iterator[str]:
        for path in context.store.paths_of(self.name):
            final = context.store.final(path)
            if final is not None:
                now = replace.read(final.path)
                yield from diff(path, now[0] if now else None, final.content)
            else:
                _note_edited(context, path)

    def undo(self, context: Context, /) -> None:
        for path in context.store.paths_of(self.name):
            final = context.store.final(path)
            if final is not None:
                final.put()
            else:
                _note_edited(context, path)


def _note_edited(context: Context, path: str) -> None:
    if context.store.is_edited(path):
        context.note(f"{path}: {SINCE}; it stays (rm {path} removes it)")


def _named(paths: Sequence[str]) -> str:
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
