# SPDX-License-Identifier: Apache-2.0
"""Settings in several TOML files, in the order in which an engine reads them, and a drop-in of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit
from cgpu.runtime_config.engines.engine import RUNTIME_NAME, is_our_program
from cgpu.runtime_config.files import changes, read_bytes, text_of
from cgpu.runtime_config.text import toml

MAX_FILES = 256
DROP_IN = "99-cgpu."  # the name of ours, without its ending
TEMPLATE = ".tmpl"
BASE = '{{ template "base" . }}'  # k3s puts its own settings there
HELD = f"{toml.BEGIN}\n{BASE}\n"
HIDDEN = "#cgpu-runtime-config hides: "
ACTION = re.compile(r"^(?=[ \t]*\{\{)", re.MULTILINE)
#: in the first lines of a file that another program writes: k3s and RKE2 the one, k0s the other
GENERATED = re.compile(r"DO NOT EDIT|^# k0s_managed=true", re.MULTILINE)
HEAD_LINES = 5
Places = tuple[tuple[str, ...], ...]
Ours = Callable[[Mapping[str, object]], Places]
"""From the settings of a file to the tables and keys in them that are ours by name and program."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One file. before: its bytes, None where there is none; text: its wanted content.

    found: the settings with ours. is_ours: there was no such file before ours, though its marks are lost.
    is_generated: another program writes it, and would lose what is added.
    """

    path: Path
    before: bytes | None
    text: str
    settings: dict[str, object]
    found: Mapping[str, object] = field(default_factory=dict)
    is_ours: bool = False
    is_generated: bool = False

    def with_text(self, text: str) -> Layer:
        """Return the file with another text. Raises CgpuError."""
        return replace(self, text=text, settings=toml.parse(str(self.path), text))


def load(path: Path, root: Path, ours: Ours = lambda _: ()) -> Layer:
    """Read a file, without our blocks, and without entries of ours whose marks are lost. Raises CgpuError."""
    before = read_bytes(path, root)
    written = text_of(path, before)
    plain = as_toml(written) if path.suffix == TEMPLATE else written
    # Marks in a generated file are those of its template, around all that took the place of an action.
    generated = is_generated(path, root, written)
    text = plain if generated else toml.strip(str(path), plain)
    if HELD in written and text.strip() == HIDDEN + BASE:
        text = ""  # where others have added lines to a template of ours, these need its action
    settings = toml.parse(str(path), text)
    found = toml.parse(str(path), plain)
    entries = ours(settings)
    for place in entries:
        text = toml.remove(str(path), text, place)
    left = toml.parse(str(path), text)
    is_bare = path.name.startswith(DROP_IN) or text.strip() == HIDDEN + BASE
    if entries and is_bare and _says_no_more(left):
        return Layer(path, before, "", {}, found, is_ours=True)
    return Layer(path, before, text, left, found, is_generated=generated)


def as_toml(template: str) -> str:
    """Return a template of Go's text/template with its lines of actions as comments, outside of our block."""
    outside = template.replace(HELD, f"{BASE}\n{toml.BEGIN}\n")
    return ACTION.sub(HIDDEN, outside)


def is_generated(path: Path, root: Path, text: str) -> bool:
    """Return whether another program writes a file with that text."""
    head = "".join(toml.lines_of(text)[:HEAD_LINES])
    return GENERATED.search(head) is not None or path.is_relative_to(root / "run")


def ours_in(place: tuple[str, ...], *program: str) -> Ours:
    """Return a function that finds our runtime in a table of runtimes. program: the key of its path there."""

    def find(settings: Mapping[str, object]) -> Places:
        found = toml.child(settings, *place, RUNTIME_NAME, *program)
        first = found[0] if isinstance(found, list) and found else found
        return ((*place, RUNTIME_NAME),) if is_our_program(first) else ()

    return find


def _says_no_more(settings: object) -> bool:
    """Return whether a drop-in without our runtime has its version and the default runtime alone."""
    if isinstance(settings, dict):
        return all(key == "version" or _says_no_more(one) for key, one in settings.items())
    return settings == RUNTIME_NAME


def release_default(files: Sequence[Layer], *keys: tuple[str, ...]) -> list[Layer]:
    """Return the files without our runtime as the default one, by any of some keys.

    Raises CgpuError where no other default is named then, and no file of ours tells that there was none.
    """
    found = list(files)
    for key in keys:
        ours = [file for file in files if toml.child(file.found, *key) == RUNTIME_NAME]
        is_known = any(toml.child(file.settings, *key) != RUNTIME_NAME for file in ours)
        for at, file in enumerate(found):
            if toml.child(file.settings, *key) == RUNTIME_NAME:
                found[at] = file.with_text(toml.remove(str(file.path), file.text, key))
        changed = next((file for file, now in zip(files, found, strict=True) if file is not now), None)
        if changed and not is_known and not any(toml.child(file.settings, *key) for file in found):
            raise CgpuError(
                f"{changed.path}: {toml.write_key(*key)}: {RUNTIME_NAME}: which one it was before is not "
                "known: set another one, or take that line out, then remove the runtime"
            )
    return found


def edits(files: Iterable[Layer], *, is_made_anew: bool = False) -> list[FileEdit]:
    """Return the edits that give the files their wanted content. Raises CgpuError for a generated file.

    is_made_anew: the engine's restart writes generated files anew, without what has left the others.
    """
    found: list[FileEdit] = []
    for file in files:
        is_new = file.before is None or file.is_ours
        before = None if is_new else text_of(file.path, file.before)
        change = changes(file.path, file.before, toml.as_file(before, file.text.replace(HIDDEN, "")))
        if change and file.is_generated and not is_made_anew:
            raise CgpuError(f"{file.path}: another program makes it (DO NOT EDIT): change what it is made of")
        found += [] if file.is_generated else change
    return found


def over(under: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Return two tables merged by key. An empty string is no value, as for the engines."""
    result = dict(under)
    for name, value in above.items():
        old = result.get(name)
        if isinstance(value, dict):
            result[name] = over(old if isinstance(old, dict) else {}, value)
        elif value != "" or old is None:
            result[name] = value
    return result


def merged(files: Sequence[Layer]) -> dict[str, object]:
    """Return the settings of all files; a later file overrides an earlier one."""
    result: dict[str, object] = {}
    for file in files:
        result = over(result, file.settings)
    return result


def verify(
    files: Sequence[Layer], target: Path, settings: object, wanted: Mapping[tuple[str, ...], object]
) -> None:
    """Raise CgpuError where the settings in force lack what was added to one file, naming the cause."""
    for path, value in wanted.items():
        if toml.same(toml.child(settings, *path), value):
            continue
        said = [file.path for file in files if toml.child(file.settings, *path) not in (None, value)]
        key = toml.write_key(*path)
        raise CgpuError(
            f"{said[-1] if said else target}: {key}: has another value, and counts before {target}: remove it"
        )


def read_folder(main: list[Path], drop_in: Path, root: Path, ours: Ours, *, suffix: str = "") -> list[Layer]:
    """Return the main files and those of the folder in their order, ours among them. Raises CgpuError.

    suffix: how the names end that the engine reads; one that reads every name also looks into folders.
    """
    names = [path for path in _walk(drop_in.parent, deep=not suffix) if path.name.endswith(suffix)]
    paths = sorted({*names, drop_in}, key=lambda path: path.relative_to(drop_in.parent).parts)
    if len(paths) > MAX_FILES:
        raise CgpuError(f"{drop_in.parent}: expected at most {MAX_FILES} files")
    return [load(path, root, ours) for path in (*main, *paths)]


def plan_drop_in(
    files: list[Layer], drop_in: Path, tables: Mapping[tuple[str, ...], Mapping[str, object]]
) -> list[FileEdit]:
    """Return the edits that give our file some tables and every other file no block. Raises CgpuError."""
    ours = next(file for file in files if file.path == drop_in)
    if ours.text:
        raise CgpuError(
            f"{drop_in}: is there and was not added by this command: remove it first: rm {drop_in}"
        )
    _refuse_foreign(files, tables)
    lines = [line for path, table in tables.items() for line in toml.write_table(path, table)]
    text = toml.insert_block("", lines)
    wanted = {(*path, key): value for path, table in tables.items() for key, value in table.items()}
    toml.check(str(drop_in), "", text, wanted)
    edited = [file.with_text(text) if file is ours else file for file in files]
    verify(edited, drop_in, merged(edited), wanted)
    return edits(edited)


def _refuse_foreign(files: Iterable[Layer], tables: Iterable[tuple[str, ...]]) -> None:
    """Raise CgpuError where another file has a runtime of our name that is not ours."""
    places = [path if path[-1] == RUNTIME_NAME else (*path, RUNTIME_NAME) for path in tables]
    for file, place in ((file, place) for file in files for place in places):
        if toml.child(file.settings, *place) is not None:
            raise CgpuError(
                f"{file.path}: {toml.write_key(*place)}: was not added by this command: remove it first"
            )


def last_value(files: list[Layer], *path: str) -> object:
    """Return the value in the last file that has one, None when none has."""
    found = (toml.child(file.settings, *path) for file in reversed(files))
    return next((value for value in found if value not in (None, "")), None)


def _walk(folder: Path, *, deep: bool) -> list[Path]:
    if not deep:
        return [path for path in folder.glob("*") if path.is_file()]
    return [Path(where) / name for where, _, names in os.walk(folder) for name in names]
