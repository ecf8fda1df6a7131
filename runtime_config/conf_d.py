# SPDX-License-Identifier: Apache-2.0
"""A file of our own in a folder whose files an engine reads after its main ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cgpu.edits import FileEdit
from cgpu.errors import CgpuError
from cgpu.runtime_config import toml_block, toml_files, toml_values
from cgpu.runtime_config.toml_edit import check, child
from cgpu.runtime_config.toml_files import Layer

MAX_FILES = 256


def read(main: list[Path], drop_in: Path, root: Path, *, suffix: str = "") -> list[Layer]:
    """Return the main files and those of the folder in their order, ours among them. Raises CgpuError.

    suffix: how the names end that the engine reads; one that reads every name also looks into folders.
    """
    names = [path for path in _walk(drop_in.parent, deep=not suffix) if path.name.endswith(suffix)]
    paths = sorted({*names, drop_in}, key=lambda path: path.relative_to(drop_in.parent).parts)
    if len(paths) > MAX_FILES:
        raise CgpuError(f"{drop_in.parent}: at most {MAX_FILES} files are accepted")
    return [toml_files.load(path, root) for path in (*main, *paths)]


def plan(
    files: list[Layer], drop_in: Path, tables: Mapping[tuple[str, ...], Mapping[str, object]]
) -> list[FileEdit]:
    """Return the edits that give our file some tables and every other file no block. Raises CgpuError."""
    ours = next(file for file in files if file.path == drop_in)
    if ours.text:
        raise CgpuError(
            f"{drop_in}: is there and was not added by this command: remove it first: rm {drop_in}"
        )
    lines = [line for path, table in tables.items() for line in toml_values.table(path, table)]
    text = toml_block.insert("", lines)
    wanted = {(*path, key): value for path, table in tables.items() for key, value in table.items()}
    check(str(drop_in), "", text, wanted)
    edited = [file.saying(text) if file is ours else file for file in files]
    toml_files.verify(edited, drop_in, toml_files.merged(edited), wanted)
    return toml_files.edits(edited)


def last(files: list[Layer], *path: str) -> object:
    """Return the value in the last file that has one, None when none has."""
    found = (child(file.settings, *path) for file in reversed(files))
    return next((value for value in found if value not in (None, "")), None)


def _walk(folder: Path, *, deep: bool) -> list[Path]:
    if not deep:
        return [path for path in folder.glob("*") if path.is_file()]
    return [Path(where) / name for where, _, names in os.walk(folder) for name in names]
