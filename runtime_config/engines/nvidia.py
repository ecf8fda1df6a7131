# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's runtime: ours is first in its list of low-level runtimes, so that --runtime=nvidia reaches it.

Our runtime has a name of its own there (LOW_LEVEL), which says that NVIDIA's runtime has done its part.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cgpu.errors import CgpuError, show
from cgpu.node_files import FileEdit, below
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines import layers
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired
from cgpu.runtime_config.files import runtime_path
from cgpu.runtime_config.oci_runtime.lowlevel import LOW_LEVEL, low_level
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
        raise CgpuError(f"{FILE}: [{PROGRAM}] runtimes: {show(present)}: expected a list of programs")
    ours = low_level(runtime)
    wanted = [ours, *(name for name in present if not _is_ours(name))]
    return bare if present == wanted else toml.put(FILE, bare, LIST, wanted)


def remove(text: str) -> str:
    """Return settings of which another tool has lost the marks, without our runtime. Raises CgpuError."""
    present = toml.child(toml.parse(FILE, text), *LIST)
    left = [name for name in present if not _is_ours(name)] if isinstance(present, list) else present
    return text if left == present else toml.replace_value(FILE, text, LIST, left)


@dataclass(frozen=True, slots=True)
class Nvidia(ContainerEngine):
    """NVIDIA's runtime. path: the file with its list of low-level runtimes."""

    is_runtime: ClassVar[bool] = True

    name: str = "nvidia"
    path: str = PATH

    def is_present(self, root: Path) -> bool:
        """Return whether NVIDIA's runtime is there; its settings may outlive it, and mean nothing then."""
        return programs.find(PROGRAM, self.search) is not None

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        """Return the edit that puts our runtime first. Raises CgpuError."""
        file = layers.load(below(root, self.path), root)
        return layers.edits([file.with_text(add(file.text, runtime_path(desired)))])

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edit that takes our runtime out of the list. Raises CgpuError."""
        file = layers.load(below(root, self.path), root)
        return layers.edits([file.with_text(remove(file.text))])

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

    def read_settings(self, text: str) -> tuple[object, object]:
        """Return our runtime's path in the list. Raises ValueError."""
        paths = toml.child(tomllib.loads(text), *LIST)
        ours = [one for one in paths if _is_ours(one)] if isinstance(paths, list) else []
        return (ours[0] if ours else None), None


def _is_ours(path: object) -> bool:
    return isinstance(path, str) and os.path.basename(path) == LOW_LEVEL
