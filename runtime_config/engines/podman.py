# SPDX-License-Identifier: Apache-2.0
"""podman: a runtime called cgpu in a drop-in beside containers.conf."""

from __future__ import annotations

import json
import subprocess
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
    Ended,
    Listing,
    Run,
    by_state,
    json_of,
    with_our_runtime,
)
from cgpu.runtime_config.engines.layers import Layer
from cgpu.runtime_config.files import runtime_path
from cgpu.runtime_config.text import toml

MAIN = "/etc/containers/containers.conf"
PATH = "/etc/containers/containers.conf.d/99-cgpu.conf"
SHIPPED = "/usr/share/containers/containers.conf"
RUNTIMES = ("engine", "runtimes")
DEFAULT = ("engine", "runtime")
#: the first that reads drop-ins
DROP_INS = (4, 0)
COPIES_NO_ANNOTATION = (4, 6)
PLACES = (Path("/usr/bin/podman"), Path("/usr/local/bin/podman"))
AT_ONCE_S = 5  # for an answer at once


@dataclass(frozen=True, slots=True)
class Podman(ContainerEngine):
    """podman. path: our drop-in."""

    program: ClassVar[str] = "podman"
    consumers_advice: ClassVar[str] = (
        "they cannot be started again; to remove them, now or later: podman rm {names}"
    )

    name: str = "podman"
    path: str = PATH

    @property
    def settings_files(self) -> tuple[str, ...]:
        return MAIN, str(Path(PATH).parent)

    def is_present(self, root: Path) -> bool:
        """Return whether podman is there; containers.conf alone may be that of other tools."""
        return programs.find("podman", self.search) is not None

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        version = programs.version("podman", self.search)
        if version and version < DROP_INS:
            raise CgpuError(
                f"podman {version[0]}.{version[1]}: reads no {Path(PATH).parent}: expected 4.0 or newer"
            )
        tables: dict[tuple[str, ...], dict[str, object]] = {RUNTIMES: {NAME: [runtime_path(desired)]}}
        if desired.default:
            tables = {("engine",): {"runtime": NAME}, **tables}
        return layers.plan_drop_in(self._files(root), below(root, self.path), tables)

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        return layers.edits(layers.release_default(self._files(root), DEFAULT))

    def check(self, root: Path) -> None:
        """Let podman read its settings, which every call of it does. Raises CgpuError with what it said."""
        podman = programs.find("podman", self.search)
        if podman is None or root != Path("/"):
            return  # it looks below / only
        answer = programs.ask([podman, "--version"])
        if answer.status or "containers.conf" in answer.errors:
            raise CgpuError(f"{self.path}: podman: {answer.last_line()}; see: podman --version")

    def read_settings(self, text: str) -> tuple[object, object]:
        settings = tomllib.loads(text)
        paths = toml.child(settings, *RUNTIMES, NAME)
        return (paths[0] if isinstance(paths, list) and paths else None), toml.child(settings, *DEFAULT)

    def copies_image_annotations(self, version: tuple[int, ...]) -> bool:
        """Return whether it is older than 4.6, or of a version not known."""
        return version < COPIES_NO_ANNOTATION

    def consumers(self, root: Path, run: Run) -> list[str]:
        return with_our_runtime(run, self.name, ".OCIRuntime")

    def stuck(self, run: Run) -> list[str]:
        """Return those that run: podman stops a container by its runtime only. Raises CgpuError."""
        return with_our_runtime(run, self.name, ".OCIRuntime", "--filter=status=running")

    def running(self, *, ended: bool = False) -> list[Callable[[], object]]:
        return [partial(running, program, stopped=ended) for program in PLACES]

    def listings(self) -> list[Listing]:
        """Return its list."""
        podman = programs.find("podman", self.search)
        return [] if podman is None else [Listing(self.name, partial(ended, [podman]))]

    def _files(self, root: Path) -> list[Layer]:
        main = [below(root, SHIPPED), below(root, MAIN)]
        return layers.read_folder(
            main, below(root, self.path), root, layers.ours_in(RUNTIMES), suffix=".conf"
        )


def ended(command: Sequence[str]) -> Ended:
    """Return which of its containers have ended. Raises CgpuError."""
    rows = json_of([*command, "ps", "--all", "--format", "json"])
    return by_state(rows, "Id", "State")


def running(program: Path, *, stopped: bool = False) -> object:
    """Return the running containers of the user that calls this, or all. Raises CgpuError."""
    command = [str(program), "ps", "--format", "json", *(["--all"] if stopped else [])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=AT_ONCE_S, check=True)
        return json.loads(done.stdout or b"[]")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise CgpuError(f"{program}: {error}") from error
