# SPDX-License-Identifier: Apache-2.0
"""Files that are ours as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from cgpu import replace
from cgpu.install.places import on_node, target
from cgpu.install.steps.step import Context, Step
from cgpu.install.store import naming
from cgpu.node_files import FileEdit, below


@dataclass(slots=True)
class Files(Step):
    """Some files. wanted: their contents by path. doing: the title; brief: shown for files that are new."""

    kind: ClassVar[str] = "files"

    wanted: Mapping[str, bytes] = field(default_factory=dict)
    doing: str = ""
    brief: str = ""

    @property
    def title(self) -> str:
        return self.doing or f"makes {_in_words(list(self.wanted))}"

    def undo_title(self, context: Context, /) -> str:
        paths = [on_node(context.root, edit.path) for edit in self._left(context)]
        return f"removes {_in_words(paths)}" if paths else ""

    def is_done(self, context: Context, /) -> bool:
        return not self._missing(context)

    def do(self, context: Context, /) -> None:
        context.change(self.name, self._missing(context), self.brief)

    def undo(self, context: Context, /) -> None:
        context.change(self.name, self._left(context))

    def _left(self, context: Context) -> list[FileEdit]:
        """Return the removal of what is left of the files. What was edited since stays, with a word."""
        edits = []
        for path in context.store.paths_of(self.name):
            now = _read(context, path)
            if now is None:
                continue
            if context.store.is_ours(path, now):
                edits.append(FileEdit(below(context.root, path), now, None))
            else:
                context.note(
                    f"{path}: was edited since cgpu install wrote it; it stays (rm {path} removes it)"
                )
        return edits

    def _missing(self, context: Context) -> list[FileEdit]:
        """Return what is missing. A file that others have written stays, with a word. Raises CgpuError."""
        found = []
        for path, after in self.wanted.items():
            now = _read(context, path)
            if now == after:
                continue
            if now is not None and not context.store.is_ours(path, now):
                known = path in context.store.files
                whose = "was edited since cgpu install wrote it" if known else "is not of cgpu install"
                context.note(f"{path}: {whose}; it stays as it is")
                continue
            found.append(FileEdit(below(context.root, path), now, after))
        return found


def _read(context: Context, path: str) -> bytes | None:
    with naming(path):
        found = replace.read(target(context.root, path))
    return found[0] if found else None


def _in_words(paths: list[str]) -> str:
    """Return files for a line: the first, and how many more."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
