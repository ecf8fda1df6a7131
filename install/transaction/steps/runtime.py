# SPDX-License-Identifier: Apache-2.0
"""One container engine's settings: edited, checked by the engine itself, and made known to it.

An engine may keep a runtime that its settings no longer have, and fail when that is still in use (dockerd and
its default runtime). So on the way back its engine may release the runtime first: temporary settings, a
reload, and then the final ones. The temporary settings are recorded too, or after a kill they would look like
another program's edit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cgpu import replace
from cgpu.errors import CgpuError
from cgpu.install.places import on_node
from cgpu.install.transaction import store
from cgpu.install.transaction.runner import must
from cgpu.install.transaction.steps import Context
from cgpu.install.transaction.steps.file_changes import MEANWHILE, FileChanges, FilesPlan, Final, naming
from cgpu.install.transaction.store import RELEASED, digest
from cgpu.node_files import FileEdit
from cgpu.replace import Meta

DEADLINE_S = 15.0
POLL_S = 0.1
BLIND_S = 2.0  # for an engine that cannot be asked


@dataclass(frozen=True, slots=True)
class Runtime:
    """The step. reload: the command after which the engine knows, empty where there is none to run."""

    files: FileChanges
    reload: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.files.title

    @property
    def undo_title(self) -> str:
        return f"{self.files.owner}: {self.files.undo_title}"

    def announced(self, context: Context) -> str:
        """Return what taking it back does to the settings as they are now. Raises CgpuError."""
        return f"{self.files.owner}: {self.files.announced(context)}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "runtime", "files": self.files.to_json(), "reload": list(self.reload)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(FileChanges.from_json(document["files"]), tuple(str(word) for word in document["reload"]))

    def apply(self, context: Context) -> None:
        """Edit, check, reload. Raises CgpuError with what the engine said."""
        self.files.apply(context)
        context.engine(self.files.owner).check(context.root)
        if self.reload:
            must(context.runner, self.reload)

    def revert(self, context: Context) -> None:
        """Put the settings back, and have the engine know. Raises CgpuError."""
        self.files.tidy(context)
        finals = self._after_temporary(context)
        released = bool(finals)
        if not finals:
            finals = self.files.finals(context)
            released = bool(self.reload) and self._release(context, finals)
        if released:
            self._try_reload(context)
            await_release(context, self.files.owner)
        for last in finals:
            last.put()
        if self.reload and not released:
            self._try_reload(context)
        self.files.remove_folders(context)
        replace.remove(_record(context))

    def undo_show(self, context: Context) -> Iterator[str]:
        """Yield diffs, and the command. Raises CgpuError."""
        yield from self.files.undo_show(context)
        if self.reload:
            yield f"+ {' '.join(self.reload)}"

    def _after_temporary(self, context: Context) -> list[Final]:
        """Return the final settings where a killed run has left temporary ones."""
        finals = []
        for path, states in _recorded(context).items():
            with naming(path):
                real = Path(states["file"])
                now = replace.read(real)
                if now is not None and digest(now[0]) == states["between"]:
                    content = None if states["after"] is None else context.store.get(states["after"])
                    finals.append(Final(path, real, content, Meta.from_json(states["meta"])))
        return finals

    def _release(self, context: Context, finals: list[Final]) -> bool:
        """Put temporary settings in place, if the engine has any; return whether it has."""
        planned = context.engine(self.files.owner).plan_release(context.root)
        named = {on_node(context.root, edit.path): edit for edit in planned}
        pairs = [(last, named[last.name]) for last in finals if last.name in named]
        if not pairs:
            return False
        _remember(context, pairs)
        for last, edit in pairs:
            with naming(last.name):
                now = replace.read(last.path)
                if now is None or now[0] != edit.before or edit.after is None:
                    raise CgpuError(f"{last.name}: {MEANWHILE}")
                replace.write(last.path, edit.after, now[1])
        return True

    def _try_reload(self, context: Context) -> None:
        # The files must be put back even where the engine cannot be reloaded.
        try:
            must(context.runner, self.reload)
        except CgpuError as error:
            context.note(f"To do: reload {self.files.owner}, which still has its old settings ({error})")


@dataclass(frozen=True, slots=True)
class RuntimePlan:
    """The step to come."""

    files: FilesPlan
    reload: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.files.title

    def show(self, context: Context) -> Iterator[str]:
        """Yield diffs, and the command."""
        yield from self.files.show(context)
        if self.reload:
            yield f"+ {' '.join(self.reload)}"

    def prepare(self, context: Context) -> Runtime:
        """Keep the contents that there are. Raises CgpuError."""
        return Runtime(self.files.prepare(context), self.reload)


def _record(context: Context) -> Path:
    return context.store.folder.parent / RELEASED


def _recorded(context: Context) -> dict[str, Any]:
    try:
        path = _record(context)
        found: dict[str, Any] = json.loads(store.read_trusted(path, path.parent.parent))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CgpuError(f"{_record(context)}: cannot be read: {error}") from error
    return found


def _remember(context: Context, pairs: list[tuple[Final, FileEdit]]) -> None:
    document = {
        last.name: {
            "file": str(last.path),
            "between": digest(edit.after or b""),
            "after": None if last.content is None else context.store.put(last.content),
            "meta": last.meta.to_json(),
        }
        for last, edit in pairs
    }
    text = json.dumps(document, indent=1).encode()
    replace.write(_record(context), text, replace.for_new_content(None, 0o600))


def await_release(context: Context, engine: str) -> None:
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
            context.note(f"To do: restart {engine}, which still has the runtime cgpu")
            return
        time.sleep(POLL_S)


def _knows_ours(context: Context, engine: str) -> bool | None:
    """Return whether the engine still knows the runtime, None where it does not answer."""
    try:
        return context.engine(engine).knows_runtime(context.runner.run)
    except CgpuError:
        return None
