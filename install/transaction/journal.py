# SPDX-License-Identifier: Apache-2.0
"""The record of what the installer does to a node: written before each step, kept until all is taken back.

/var/lib/cgpu/install/ (0700): journal.json and before/, the contents of edited files as they were.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cgpu import __version__, replace
from cgpu.errors import CgpuError
from cgpu.install import places
from cgpu.install.transaction import store
from cgpu.install.transaction.steps import Step
from cgpu.install.transaction.steps.file_changes import FileChanges
from cgpu.install.transaction.steps.runtime import Runtime
from cgpu.install.transaction.steps.system import Commands, LoadModule, Note, Unit
from cgpu.install.transaction.store import RELEASED, Store
from cgpu.node_files import below

FORMAT = 1
NAME = "journal.json"
CONTENTS = "before"
STAGING = "staging"

# What is going on. CHANGING: steps from `committed` on are not all done.
CHANGING = "changing"
INSTALLED = "installed"
REMOVING = "removing"
STATES = (CHANGING, INSTALLED, REMOVING)

KINDS: dict[str, type[Commands | FileChanges | LoadModule | Note | Runtime | Unit]] = {
    "commands": Commands,
    "files": FileChanges,
    "module": LoadModule,
    "note": Note,
    "runtime": Runtime,
    "unit": Unit,
}


@dataclass(slots=True)
class Journal:
    """The record. version: of the program that wrote it last. facts: what was asked for."""

    folder: Path
    state: str = INSTALLED
    operation: str = ""
    committed: int = 0
    steps: list[Step] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    version: str = __version__

    @property
    def store(self) -> Store:
        """Return the contents of files as they were."""
        return Store(self.folder / CONTENTS)

    @property
    def staging(self) -> Path:
        """Return a folder for files that are on their way to the node."""
        return self.folder / STAGING

    def save(self) -> None:
        """Have the record on the disk. Raises OSError."""
        _make(self.folder)
        self.folder.chmod(0o700)
        document = {
            "format": FORMAT,
            "version": self.version,
            "state": self.state,
            "operation": self.operation,
            "committed": self.committed,
            "facts": self.facts,
            "steps": [step.to_json() for step in self.steps],
        }
        text = json.dumps(document, indent=1) + "\n"
        replace.write(self.folder / NAME, text.encode(), replace.for_new_content(None, 0o600))

    def delete(self) -> None:
        """Remove the record and its folders; what others have put there stays. Raises OSError."""
        replace.remove(self.folder / NAME)
        sweep(self.folder)


def at(root: Path) -> Journal:
    """Return an empty record for a root, which is not on the disk yet."""
    return Journal(below(root, places.RECORD))


def load(root: Path) -> Journal | None:
    """Read the record, None where there is none. Raises CgpuError for a damaged or foreign one."""
    folder = below(root, places.RECORD)
    path = folder / NAME
    try:
        raw = _trusted(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read ({error.strerror or error}); run it as root") from error
    try:
        return _parse(folder, json.loads(raw))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CgpuError(
            f"{path}: is not a record of this version ({type(error).__name__}: {error}); the files as they "
            f"were are in {folder / CONTENTS}: put them back by hand, then remove {folder}"
        ) from error


def sweep(folder: Path) -> None:
    """Remove what a record's folder holds besides a record, if there is no record. Raises OSError."""
    if (folder / NAME).exists():
        return
    if folder.is_dir():
        for name in (NAME, RELEASED):
            replace.temporary(folder / name).unlink(missing_ok=True)
        (folder / RELEASED).unlink(missing_ok=True)
        Store(folder / CONTENTS).clear()
        clear_staging(folder / STAGING)
    for path in (folder, folder.parent):
        with contextlib.suppress(OSError):
            path.rmdir()


def make_staging(folder: Path) -> None:
    """Have an empty folder for files on their way to the node. Raises OSError."""
    clear_staging(folder)
    _make(folder.parent)
    folder.mkdir(mode=0o700)


def clear_staging(folder: Path) -> None:
    """Remove the files on their way to the node. Raises OSError."""
    import shutil

    if folder.exists():
        shutil.rmtree(folder)


def _make(folder: Path) -> None:
    """Make a record's folder. Others write neither there nor beside it, whatever the umask is."""
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _trusted(path: Path) -> bytes:
    """Return what the record holds. Raises OSError; CgpuError where others than root may have written it."""
    folder, home = path.parent, path.parent.parent
    raw = store.read_trusted(path, home)
    for place in (home, folder):
        store.check_owner(place, place.stat(), home)
    for name in (CONTENTS, RELEASED):
        with contextlib.suppress(FileNotFoundError):
            store.check_owner(folder / name, (folder / name).lstat(), home)
    return raw


def _parse(folder: Path, document: Mapping[str, Any]) -> Journal:
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']}, expected {FORMAT}")
    state = document["state"]
    if state not in STATES:
        raise ValueError(f"state {state!r}")
    kept: list[Step] = [KINDS[step["kind"]].from_json(step) for step in document["steps"]]
    committed = int(document["committed"])
    if not 0 <= committed <= len(kept):
        raise ValueError(f"committed {committed} of {len(kept)} steps")
    facts = dict(document["facts"])
    if not isinstance(facts.get("runtimes", []), list):
        raise TypeError("facts: runtimes: expected a list")
    return Journal(
        folder,
        state,
        str(document["operation"]),
        committed,
        kept,
        facts,
        str(document["version"]),
    )
