# SPDX-License-Identifier: Apache-2.0
"""Settings that lie in several TOML files, in the order in which an engine reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.edits import FileEdit
from cgpu.errors import CgpuError
from cgpu.runtime_config import toml_block, toml_values
from cgpu.runtime_config.files import changes, read_bytes, text_of
from cgpu.runtime_config.toml_edit import child, parse, same


@dataclass(frozen=True, slots=True)
class Layer:
    """One file. before: its bytes, None where there is none; text: what it shall say."""

    path: Path
    before: bytes | None
    text: str
    settings: dict[str, object]

    def saying(self, text: str) -> Layer:
        """Return the file with another text. Raises CgpuError."""
        return Layer(self.path, self.before, text, parse(str(self.path), text))


def load(path: Path, root: Path) -> Layer:
    """Read a file, without the blocks that we have added to it. Raises CgpuError."""
    before = read_bytes(path, root)
    text = toml_block.strip(str(path), text_of(path, before))
    return Layer(path, before, text, parse(str(path), text))


def edits(files: Iterable[Layer]) -> list[FileEdit]:
    """Return what the files shall say and do not."""
    found: list[FileEdit] = []
    for file in files:
        before = None if file.before is None else text_of(file.path, file.before)
        found += changes(file.path, file.before, toml_block.as_file(before, file.text))
    return found


def over(under: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Return two tables merged by key. An empty text says nothing, as engines have it."""
    result = dict(under)
    for name, value in above.items():
        old = result.get(name)
        if isinstance(value, dict):
            result[name] = over(old if isinstance(old, dict) else {}, value)
        elif value != "" or old is None:
            result[name] = value
    return result


def merged(files: Sequence[Layer]) -> dict[str, object]:
    """Return what files say together, later ones over former ones."""
    result: dict[str, object] = {}
    for file in files:
        result = over(result, file.settings)
    return result


def verify(
    files: Sequence[Layer], target: Path, settings: object, wanted: Mapping[tuple[str, ...], object]
) -> None:
    """Raise CgpuError where the settings in force lack what was added to one file, naming the cause."""
    for path, value in wanted.items():
        if same(child(settings, *path), value):
            continue
        said = [file.path for file in files if child(file.settings, *path) not in (None, value)]
        key = toml_values.key(*path)
        raise CgpuError(
            f"{said[-1] if said else target}: {key}: has another value, and counts before {target}: remove it"
        )
