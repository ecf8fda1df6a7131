# SPDX-License-Identifier: Apache-2.0
"""containerd's settings as files: config.toml and what it imports, and which of them is to be edited."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.edits import FileEdit
from cgpu.errors import CgpuError
from cgpu.roots import below
from cgpu.runtime_config import containerd, programs, toml_files
from cgpu.runtime_config.editor import Reload, Wish
from cgpu.runtime_config.files import runtime_path
from cgpu.runtime_config.toml_edit import child, parse
from cgpu.runtime_config.toml_files import Layer

PATH = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/99-cgpu.toml"
MAX_FILES = 256
#: since then imported files are merged by key (containerd #5837); before, a plugin is replaced as a whole
MERGES = (2, 1)
KEEPS_STOCK = (2, 0)
#: from the first to the last of these, a file of version 1 is read, and its settings for CRI are overlooked
LOSES_V1 = ((2, 0), (2, 2))


@dataclass(frozen=True, slots=True)
class Containerd:
    """The editor of config.toml and its drop-ins. drop_in: None where there is to be none of ours."""

    name: str = "containerd"
    path: str = PATH
    drop_in: str | None = DROP_IN
    search: Sequence[str] = programs.SEARCH

    def is_present(self, root: Path) -> bool:
        """Return whether containerd is there and its CRI plugin on: docker's own packages switch that off."""
        path = below(root, self.path)
        if not path.exists():
            return programs.find("containerd", self.search) is not None
        disabled = toml_files.load(path, root).settings.get("disabled_plugins")
        return not (isinstance(disabled, list) and {"cri", containerd.PLUGINS[2]} & set(map(str, disabled)))

    def plan_add(self, root: Path, wish: Wish) -> Sequence[FileEdit]:
        """Return the edits that add the runtime, in the file that counts. Raises CgpuError."""
        version = programs.version("containerd", self.search) or (1, 0)
        merges, keeps_stock = version >= MERGES, version >= KEEPS_STOCK
        files = layers(below(root, self.path), root)
        _refuse_v1(files[0], version)
        new = containerd.addition(
            merged(files, merges=merges), runtime_path(wish), default=wish.default, keeps_stock=keeps_stock
        )
        target = self._target(root, files, new, merges=merges)
        if not any(file.path == target for file in files):
            files.insert(_place(files, target), toml_files.load(target, root))
        edited = [
            file.saying(containerd.insert(file.text, new)) if file.path == target else file for file in files
        ]
        toml_files.verify(edited, target, merged(edited, merges=merges), new.values())
        return toml_files.edits(self._with_drop_in(root, edited))

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take our blocks out of every file. Raises CgpuError."""
        return toml_files.edits(self._with_drop_in(root, layers(below(root, self.path), root)))

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Return nothing: containerd reads all anew when it is restarted."""
        return []

    def check(self, root: Path) -> None:
        """Let containerd read its settings, and look for the default runtime among them. Raises CgpuError."""
        path = below(root, self.path)
        program = programs.find("containerd", self.search)
        if program is None or not path.exists():
            return
        answer = programs.ask([program, "-c", str(path), "config", "dump"])
        see = f"see: containerd -c {path} config dump"
        if answer.status:
            raise CgpuError(f"{path}: containerd: {answer.last_line()}; {see}")
        if root != Path("/") and "imports" in toml_files.load(path, root).settings:
            return  # what it has read lies partly outside of that folder
        settings = parse("containerd config dump", answer.output)
        place = ("plugins", containerd.plugin_of(settings), "containerd")
        default = child(settings, *place, containerd.DEFAULT)
        if isinstance(default, str) and child(settings, *place, "runtimes", default) is None:
            raise CgpuError(
                f"{path}: {containerd.DEFAULT}: {default}: there is no runtime of that name; {see}"
            )

    def reload(self, root: Path) -> Reload:
        """Return the restart, which shims and their containers outlive; nothing where it does not run."""
        return Reload(("systemctl", "try-restart", "containerd"))

    def _target(self, root: Path, files: Sequence[Layer], new: containerd.Addition, *, merges: bool) -> Path:
        """Return the file to edit: our drop-in where it is read and merged, else the one that counts."""
        main = files[0]
        merges_ours = merges and new.plugin != containerd.PLUGINS[1]
        if self.drop_in and merges_ours and _imports(main.settings, self.path, self.drop_in):
            return below(root, self.drop_in)
        owners = [file.path for file in files if child(file.settings, "plugins", new.plugin) is not None]
        return owners[-1] if owners and (new.default or not merges) else main.path

    def _with_drop_in(self, root: Path, files: Sequence[Layer]) -> Sequence[Layer]:
        """Return the files and our drop-in, which may be there though nothing imports it now."""
        drop_in = below(root, self.drop_in) if self.drop_in else files[0].path
        there = any(file.path == drop_in for file in files)
        return files if there else [*files, toml_files.load(drop_in, root)]


def _refuse_v1(main: Layer, version: tuple[int, int]) -> None:
    """Raise CgpuError where containerd would overlook what is added."""
    if LOSES_V1[0] <= version <= LOSES_V1[1] and containerd.version_of(main.settings) == 1:
        raise CgpuError(
            f"{main.path}: version: 1: containerd {version[0]}.{version[1]} overlooks what such a file says "
            "of CRI; accepted are 2 and 3: write it anew, by containerd 1.x: containerd config dump"
        )


def layers(main: Path, root: Path) -> list[Layer]:
    """Return the main file and what it imports, in the order of reading. Raises CgpuError."""
    found: list[Layer] = []
    pending = [main]
    while pending:
        path = pending.pop(0)
        if any(layer.path == path for layer in found):
            continue
        if len(found) == MAX_FILES:
            raise CgpuError(f"{main}: imports: at most {MAX_FILES} files are accepted")
        layer = toml_files.load(path, root)
        found.append(layer)
        pending += _imported(layer, root)
    return found


def merged(files: Sequence[Layer], *, merges: bool) -> dict[str, object]:
    """Return the settings in force. merges: by key; else a later plugin takes the place of a former one."""
    result: dict[str, object] = {}
    for file in files:
        former, plugins = result.get("plugins"), file.settings.get("plugins")
        result = toml_files.over(result, file.settings)
        if not merges and isinstance(plugins, dict):
            result["plugins"] = {**(former if isinstance(former, dict) else {}), **plugins}
    return result


def _patterns(settings: Mapping[str, object], main: str) -> list[str]:
    given = settings.get("imports")
    folder = os.path.dirname(main)
    return (
        [os.path.normpath(os.path.join(folder, str(one))) for one in given] if isinstance(given, list) else []
    )


def _imported(layer: Layer, root: Path) -> list[Path]:
    found: list[Path] = []
    inside = "/" + os.path.relpath(layer.path, root)
    for pattern in _patterns(layer.settings, inside):
        inner = pattern.lstrip("/")
        names = glob.glob(inner, root_dir=root, include_hidden=True) if "*" in pattern else [inner]
        found += [root / name for name in sorted(names) if (root / name).exists()]
    return found


def _imports(settings: Mapping[str, object], main: str, path: str) -> bool:
    """Return whether the imports of a main file bring in another file."""
    folder, name = os.path.split(path)
    patterns = [os.path.split(pattern) for pattern in _patterns(settings, main)]
    return any(where == folder and fnmatch.fnmatchcase(name, pattern) for where, pattern in patterns)


def _place(files: Sequence[Layer], path: Path) -> int:
    """Return where a drop-in that is not there yet comes in the order of reading."""
    before = [at for at, file in enumerate(files) if file.path.parent == path.parent and file.path < path]
    return max(before, default=0) + 1
