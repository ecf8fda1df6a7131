# SPDX-License-Identifier: Apache-2.0
"""Files that are ours as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from cgpu import replace
from cgpu.install.places import on_node, target
from cgpu.install.steps.step import Context, Step
from cgpu.install.store import Final, in_words, naming
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
        return self.doing or f"makes {in_words(list(self.wanted))}"

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
        edited = ", ".join(context.store.edited(self.name))
        return context.store.says_undone(self.name) or (f"leaves {edited} as edited" if edited else "")

    def show_undo(self, context: Context, /) -> Iterator[str]:
        for final in self._finals(context):
            yield from final.diff()

    def undo(self, context: Context, /) -> None:
        for final in self._finals(context):
            final.put()

    def _finals(self, context: Context) -> list[Final]:
        for path in context.store.edited(self.name):
            context.note(f"{path}: {SINCE}; it stays (rm {path} removes it)")
        finals = [context.store.final(path) for path in context.store.paths_of(self.name)]
        return [final for final in finals if final is not None]
