# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's runtime: ours is first in its list of low-level runtimes, so that --runtime=nvidia reaches it.

It has a name of its own there (LOW_LEVEL), by which it knows that NVIDIA's runtime has had its turn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.edits import FileEdit
from cgpu.errors import CgpuError, show
from cgpu.roots import below
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines import layers
from cgpu.runtime_config.engines.engine import Reload, Wish
from cgpu.runtime_config.files import runtime_path
from cgpu.runtime_config.oci_runtime.lowlevel import LOW_LEVEL, NAME, low_level
from cgpu.runtime_config.text import toml

PATH = "/etc/nvidia-container-runtime/config.toml"
PROGRAM = "nvidia-container-runtime"
FILE = "nvidia-container-runtime/config.toml"
LIST = (PROGRAM, "runtimes")
#: what it uses where its settings have no list
STOCK = ["runc", "crun"]


def add(text: str, runtime: str) -> str:
    """Return the settings with our runtime first in the list, and only there.

    runtime: its path by the name for engines. Raises CgpuError when that cannot be.
    """
    bare = toml.strip(FILE, text)
    present = toml.child(toml.parse(FILE, bare), *LIST)
    if present is None:
        present = STOCK
    if not isinstance(present, list) or not all(isinstance(name, str) for name in present):
        raise CgpuError(f"{FILE}: [{PROGRAM}] runtimes: {show(present)}: a list of programs is accepted")
    ours = low_level(runtime)
    wanted = [ours, *(name for name in present if os.path.basename(name) not in (NAME, LOW_LEVEL))]
    return bare if present == wanted else toml.put(FILE, bare, LIST, wanted)


def remove(text: str) -> str:
    """Return the settings without what add() put in. Raises CgpuError."""
    return toml.strip(FILE, text)


@dataclass(frozen=True, slots=True)
class Nvidia:
    """The editor of NVIDIA's list of low-level runtimes. It has no default runtime."""

    name: str = "nvidia"
    path: str = PATH
    search: Sequence[str] = programs.SEARCH

    def is_present(self, root: Path) -> bool:
        """Return whether NVIDIA's runtime is there; its settings may outlive it, and mean nothing then."""
        return programs.find(PROGRAM, self.search) is not None

    def plan_add(self, root: Path, wish: Wish) -> Sequence[FileEdit]:
        """Return the edit that puts our runtime first. Raises CgpuError."""
        file = layers.load(below(root, self.path), root)
        return layers.edits([file.saying(add(file.text, runtime_path(wish)))])

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edit that takes our runtime out of the list. Raises CgpuError."""
        return layers.edits([layers.load(below(root, self.path), root)])

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Return nothing: the list is read at each call."""
        return []

    def check(self, root: Path) -> None:
        """Let NVIDIA's own tool read the file. Raises CgpuError with what it said."""
        path = below(root, self.path)
        tool = programs.find("nvidia-ctk", self.search)
        if tool is None or not path.exists():
            return
        command = [tool, "config", "--config-file", str(path)]
        answer = programs.ask(command)
        if answer.status:
            raise CgpuError(f"{path}: nvidia-ctk: {answer.last_line()}; see: {' '.join(command)}")

    def reload(self, root: Path) -> Reload:
        """Return nothing: the list is read at each call."""
        return Reload(())
