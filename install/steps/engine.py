# SPDX-License-Identifier: Apache-2.0
"""A container engine has the runtime: its settings are edited, checked by the engine itself, and read anew.

On the way back an engine may have to release the runtime first (dockerd and its default runtime): temporary
settings, a reload, and then the final ones.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cgpu.errors import CgpuError
from cgpu.install.node.facts import settings
from cgpu.install.places import on_node
from cgpu.install.steps.step import Context, Step
from cgpu.node_files import FileEdit, below
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.engine import Desired, is_our_program
from cgpu.runtime_config.engines.layers import is_generated
from cgpu.runtime_config.files import read_text

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

    def undo_title(self, context: Context, /) -> str:
        edits = context.engine(self.about).plan_remove(context.root)
        places = ", ".join(on_node(context.root, edit.path) for edit in edits)
        return f"{self.about}: takes the runtime {NAME} out of {places or 'its settings'}"

    def is_done(self, context: Context, /) -> bool:
        return not self._edits(context)

    def do(self, context: Context, /) -> None:
        """Edit, check, reload; where that fails, the settings are put back."""
        edits, engine = self._edits(context), context.engine(self.about)
        context.change(self.name, edits)
        try:
            if context.show is None:
                engine.check(context.root)
            self._reload(context, f"restart {self.about} to load the new runtime")
        except CgpuError:
            back = [dataclasses.replace(edit, before=edit.after, after=edit.before) for edit in edits]
            # A killed run has made the edits where there are none now.
            context.change(self.name, back or engine.plan_remove(context.root))
            self._try_reload(context)
            raise

    def undo(self, context: Context, /) -> None:
        """Take the runtime out of the settings, and have the engine know."""
        engine = context.engine(self.about)
        edits = engine.plan_remove(context.root)
        can_release = self._can_reload(context) and context.show is None
        release = engine.plan_release(context.root) if can_release else ()
        if release:
            context.change(self.name, release)
            self._try_reload(context)
            _await_release(context, self.about)
        context.change(self.name, after(edits, release))
        if not release:
            self._try_reload(context)
        if context.show is None:
            self._refuse_left(context)

    def _edits(self, context: Context) -> Sequence[FileEdit]:
        assert self.desired is not None, self.about
        return context.engine(self.about).plan_add(context.root, self.desired)

    def _can_reload(self, context: Context) -> bool:
        words = context.engine(self.about).reload()
        return bool(words) and (words[0] != "systemctl" or context.node.software.systemd)

    def _reload(self, context: Context, by_hand: str) -> None:
        words = context.engine(self.about).reload()
        if self._can_reload(context):
            context.run(*words)
        elif words:
            context.note(f"To do: {by_hand}")

    def _try_reload(self, context: Context) -> None:
        # The files must be put back even where the engine cannot be reloaded.
        try:
            self._reload(context, f"restart {self.about}, which still knows the runtime {NAME}")
        except CgpuError as error:
            context.note(f"To do: reload {self.about}, which still has its old settings ({error})")

    def _refuse_left(self, context: Context) -> None:
        """Raise CgpuError where a file still has the runtime: it is not read now, and may be later."""
        root = context.root
        for entry in settings.of_engine(root, context.engine(self.about)):
            path = below(root, entry.file)
            if is_our_program(entry.runtime) and not is_generated(path, root, read_text(path, root)):
                raise CgpuError(f"{entry.file}: still has the runtime {NAME}: take it out by hand")


def after(edits: Sequence[FileEdit], earlier: Sequence[FileEdit]) -> list[FileEdit]:
    """Return edits as they are once earlier ones are made."""
    now = {edit.path: edit.after for edit in earlier}
    return [dataclasses.replace(edit, before=now.get(edit.path, edit.before)) for edit in edits]


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
