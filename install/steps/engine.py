# SPDX-License-Identifier: Apache-2.0
"""A container engine has the runtime: its settings are edited, checked by the engine itself, and read anew.

On the way back an engine may have to release the runtime first (dockerd and its default runtime): temporary
settings, a reload, and then the final ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cgpu import replace
from cgpu.errors import CgpuError
from cgpu.install.node.facts import settings
from cgpu.install.places import on_node, target
from cgpu.install.runner import must
from cgpu.install.steps.files import SINCE
from cgpu.install.steps.step import Context, Step
from cgpu.install.store import Final, naming
from cgpu.node_files import FileEdit, diff
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.engine import Desired

FILE_MODE = 0o644
DEADLINE_S = 15.0
POLL_S = 0.1
BLIND_S = 2.0  # for an engine that cannot be asked


@dataclass(slots=True)
class Engine(Step):
    """The step. about: the engine's name. desired: None for a step that is only taken back."""

    kind: ClassVar[str] = "engine"

    desired: Desired | None = None

    @property
    def title(self) -> str:
        return f"{self.about}: adds the runtime {NAME}"

    def is_done(self, context: Context, /) -> bool:
        return not self.edits(context)

    def edits(self, context: Context, /) -> Sequence[FileEdit]:
        assert self.desired is not None, self.about
        return context.engine(self.about).plan_add(context.root, self.desired)

    def show(self, context: Context, /) -> Iterator[str]:
        for edit in self.edits(context):
            yield from diff(on_node(context.root, edit.path), edit.before, edit.after)
        if self._can_reload(context):
            yield f"+ {' '.join(context.engine(self.about).reload())}"

    def do(self, context: Context, /) -> None:
        """Edit, check, reload; where that fails, the settings are put back."""
        found = context.store.write(self.name, self.edits(context))
        try:
            context.engine(self.about).check(context.root)
            self._reload(context, f"restart {self.about} to load the new runtime")
        except CgpuError:
            # A killed run has made the edits where there are none now.
            for final in found or self._finals(context):
                final.put()
            self._try_reload(context)
            raise

    def undo_title(self, context: Context, /) -> str:
        edited = ", ".join(context.store.edited(self.name))
        whole = "" if edited else context.store.says_undone(self.name)
        return f"{self.about}: " + (whole or f"takes the runtime {NAME} out of {edited or 'its settings'}")

    def show_undo(self, context: Context, /) -> Iterator[str]:
        for final in self._finals(context):
            yield from final.diff()
        if self._can_reload(context):
            yield f"+ {' '.join(context.engine(self.about).reload())}"

    def undo(self, context: Context, /) -> None:
        """Put the settings back, without the runtime wherever it is by now, and have the engine know."""
        finals = self._finals(context)
        released = self._release(context, finals)
        if released:
            self._try_reload(context)
            _await_release(context, self.about)
        for final in finals:
            final.put()
        if not released:
            self._try_reload(context)
        self._note_left(context)

    def _finals(self, context: Context) -> list[Final]:
        """Return the files as they were; those that were edited since, or never ours, without the runtime."""
        edits = context.engine(self.about).plan_remove(context.root)
        named = {on_node(context.root, edit.path): edit for edit in edits}
        finals = []
        for path in context.store.paths_of(self.name):
            final = context.store.final(path)
            if final is not None:
                finals.append(final)
            if not context.store.is_edited(path):
                named.pop(path, None)
        for path, edit in named.items():
            context.note(f"{path}: {SINCE}; only the runtime {NAME} is taken out")
            with naming(path):
                real = target(context.root, path)
                meta = replace.for_new_content(replace.read(real), FILE_MODE)
            finals.append(Final(path, real, edit.after, meta))
        return finals

    def _release(self, context: Context, finals: Sequence[Final]) -> bool:
        """Put temporary settings in place, if the engine has any; return whether there are some."""
        if not self._can_reload(context):
            return False
        if any(context.store.is_lent(final.name) for final in finals):
            return True  # by a killed run, which may not have come to the reload
        planned = context.engine(self.about).plan_release(context.root)
        named = {on_node(context.root, edit.path): edit for edit in planned}
        pairs = [(final, named[final.name]) for final in finals if final.name in named]
        for final, edit in pairs:
            context.store.lend(self.name, final, edit)
        return bool(pairs)

    def _can_reload(self, context: Context) -> bool:
        words = context.engine(self.about).reload()
        return bool(words) and (words[0] != "systemctl" or context.node.software.systemd)

    def _reload(self, context: Context, by_hand: str) -> None:
        words = context.engine(self.about).reload()
        if self._can_reload(context):
            must(context.runner, words)
        elif words:
            context.note(f"To do: {by_hand}")

    def _try_reload(self, context: Context) -> None:
        # The files must be put back even where the engine cannot be reloaded.
        try:
            self._reload(context, f"restart {self.about}, which still knows the runtime {NAME}")
        except CgpuError as error:
            context.note(f"To do: reload {self.about}, which still has its old settings ({error})")

    def _note_left(self, context: Context) -> None:
        """Name the files that still have the runtime, in a form that no edit was planned for."""
        for entry in settings.of_engine(context.root, context.engine(self.about)):
            known = entry.file in context.store.files
            if entry.runtime is not None and not (known and not context.store.is_edited(entry.file)):
                context.note(f"To do: take the runtime {NAME} out of {entry.file} by hand")


def _await_release(context: Context, engine: str) -> None:
    """Wait until an engine has read its settings: the command that reloads it does not wait for that.

    An engine that still has the runtime after that is named in a note.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        knows = _knows_ours(context, engine)
        if knows is None:
            time.sleep(BLIND_S)
            return
        if not knows:
            return
        if time.monotonic() > deadline:
            context.note(f"To do: restart {engine}, which still has the runtime {NAME}")
            return
        time.sleep(POLL_S)


def _knows_ours(context: Context, engine: str) -> bool | None:
    """Return whether the engine still knows the runtime, None where it does not answer."""
    try:
        return context.engine(engine).knows_runtime(context.runner.run)
    except CgpuError:
        return None
