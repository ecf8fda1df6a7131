# SPDX-License-Identifier: Apache-2.0
"""Settings in several TOML files, in the order in which an engine reads them, and a drop-in of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit
from cgpu.runtime_config.files import changes, read_bytes, text_of
from cgpu.runtime_config.text import toml

MAX_FILES = 256


@dataclass(frozen=True, slots=True)
class Layer:
    """One file. before: its bytes, None where there is none; text: its wanted content."""

    path: Path
    before: bytes | None
    text: str
    settings: dict[str, object]

    def with_text(self, text: str) -> Layer:
        """Return the file with another text. Raises CgpuError."""
        return Layer(self.path, self.before, text, toml.parse(str(self.path), text))


def load(path: Path, root: Path) -> Layer:
    """Read a file, without the blocks that we have added to it. Raises CgpuError."""
    before = read_bytes(path, root)
    text = toml.strip(str(path), text_of(path, before))
    return Layer(path, before, text, toml.parse(str(path), text))


def edits(files: Iterable[Layer]) -> list[FileEdit]:
    """Return the edits that give the files their wanted content."""
    found: list[FileEdit] = []
    for file in files:
        before = None if file.before is None else text_of(file.path, file.before)
        found += changes(file.path, file.before, toml.as_file(before, file.text))
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


def read_folder(main: list[Path], drop_in: Path, root: Path, *, suffix: str = "") -> list[Layer]:
    """Return the main files and those of the folder in their order, ours among them. Raises CgpuError.

    suffix: how the names end that the engine reads; one that reads every name also looks into folders.
    """
    names = [path for path in _walk(drop_in.parent, deep=not suffix) if path.name.endswith(suffix)]
    paths = sorted({*names, drop_in}, key=lambda path: path.relative_to(drop_in.parent).parts)
    if len(paths) > MAX_FILES:
        raise CgpuError(f"{drop_in.parent}: expected at most {MAX_FILES} files")
    return [load(path, root) for path in (*main, *paths)]


def plan_drop_in(
    files: list[Layer], drop_in: Path, tables: Mapping[tuple[str, ...], Mapping[str, object]]
) -> list[FileEdit]:
    """Return the edits that give our file some tables and every other file no block. Raises CgpuError."""
    ours = next(file for file in files if file.path == drop_in)
    if ours.text:
        raise CgpuError(
            f"{drop_in}: is there and was not added by this command: remove it first: rm {drop_in}"
        )
    lines = [line for path, table in tables.items() for line in toml.write_table(path, table)]
    text = toml.insert_block("", lines)
    wanted = {(*path, key): value for path, table in tables.items() for key, value in table.items()}
    toml.check(str(drop_in), "", text, wanted)
    edited = [file.with_text(text) if file is ours else file for file in files]
    verify(edited, drop_in, merged(edited), wanted)
    return edits(edited)


def last_value(files: list[Layer], *path: str) -> object:
    """Return the value in the last file that has one, None when none has."""
    found = (toml.child(file.settings, *path) for file in reversed(files))
    return next((value for value in found if value not in (None, "")), None)


def _walk(folder: Path, *, deep: bool) -> list[Path]:
    if not deep:
        return [path for path in folder.glob("*") if path.is_file()]
    return [Path(where) / name for where, _, names in os.walk(folder) for name in names]
