# SPDX-License-Identifier: Apache-2.0
"""CRI-O: a runtime called cgpu in a drop-in of its own."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit, below
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines import layers
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.engine import (
    ContainerEngine,
    Desired,
    Listing,
    alike,
    ended_by_cri,
    named_by_cri,
)
from cgpu.runtime_config.engines.layers import Layer
from cgpu.runtime_config.files import runtime_path
from cgpu.runtime_config.text import toml

PATH = "/etc/crio/crio.conf.d/99-cgpu.conf"
MAIN = "/etc/crio/crio.conf"
SOCKET = "/run/crio/crio.sock"
RUNTIME = ("crio", "runtime")
DEFAULT = (*RUNTIME, "default_runtime")
# Keys about the other runtime's program, which are not true of ours.
NOT_COPIED = (
    "runtime_path",
    "runtime_type",
    "runtime_config_path",
    "platform_runtime_paths",
    "inherit_default_runtime",
)


@dataclass(frozen=True, slots=True)
class Crio(ContainerEngine):
    """CRI-O. path: our drop-in; main: the file beside whose folder it lies."""

    program: ClassVar[str] = "crio"

    name: str = "crio"
    path: str = PATH
    main: str = MAIN

    @property
    def settings_files(self) -> tuple[str, ...]:
        return MAIN, str(Path(PATH).parent)

    @property
    def kubelet_socket(self) -> str:
        return SOCKET

    def is_present(self, root: Path) -> bool:
        """Return whether crio or its settings are there."""
        places = (self.main, str(Path(self.path).parent))
        return programs.find("crio", self.search) is not None or any(
            below(root, one).exists() for one in places
        )

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        files = self._files(root)
        runtime = runtime_path(desired)
        ours = {"runtime_path": runtime, "runtime_type": "oci", **_like(files)}
        tables: dict[tuple[str, ...], dict[str, object]] = {(*RUNTIME, "runtimes", NAME): ours}
        if desired.default:
            tables = {RUNTIME: {"default_runtime": NAME}, **tables}
        return layers.plan_drop_in(files, below(root, self.path), tables)

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take our runtime out of every file. Raises CgpuError."""
        return layers.edits(layers.release_default(self._files(root), DEFAULT))

    def check(self, root: Path) -> None:
        """Let CRI-O read its settings, which `crio config` checks as it prints them. Raises CgpuError."""
        crio = programs.find("crio", self.search)
        folder = below(root, self.path).parent
        if crio is None or not folder.exists():
            return
        main = below(root, self.main)  # which it must find where it is named, and packages have none
        config = str(main) if main.exists() else os.devnull
        command = [crio, "--config", config, "--config-dir", str(folder), "config"]
        answer = programs.ask(command)
        if answer.status:
            raise CgpuError(f"{folder}: crio: {answer.last_line()}; see: {' '.join(command)}")

    def reload(self) -> tuple[str, ...]:
        """Return the restart, which conmon and the containers outlive; nothing where it does not run.

        Not SIGHUP: it came with 1.26 for runtimes, and takes conmon's path, which CRI-O fills in only as it
        starts, from every runtime that does not name it: seen with 1.34.0.
        """
        return ("systemctl", "try-restart", "crio")

    def read_settings(self, text: str) -> tuple[object, object]:
        table = toml.child(tomllib.loads(text), *RUNTIME)
        return toml.child(table, "runtimes", NAME, "runtime_path"), toml.child(table, "default_runtime")

    def running(self, *, ended: bool = False) -> list[Callable[[], object]]:
        return [partial(named_by_cri, command) for command in self._crictl()]

    def listings(self) -> list[Listing]:
        """Return its list by crictl."""
        return [Listing("cri-o", partial(ended_by_cri, command)) for command in self._crictl()]

    def _crictl(self) -> list[list[str]]:
        """Return the command that asks CRI-O; none where either is not there."""
        crictl = programs.find("crictl", self.search)
        if crictl is None or not Path(SOCKET).is_socket():
            return []
        return [[crictl, "-r", f"unix://{SOCKET}"]]

    def _files(self, root: Path) -> list[Layer]:
        ours = layers.ours_in((*RUNTIME, "runtimes"), "runtime_path")
        return layers.read_folder([below(root, self.main)], below(root, self.path), root, ours)


def _like(files: list[Layer]) -> dict[str, object]:
    """Return the settings that ours takes over from another runtime, as nvidia-ctk does."""
    for name in alike(layers.last_value(files, *DEFAULT)):
        table = layers.last_value(files, *RUNTIME, "runtimes", name)
        if isinstance(table, dict) and table.get("runtime_type", "oci") in ("", "oci"):
            return {key: value for key, value in table.items() if key not in NOT_COPIED}
    return {}
