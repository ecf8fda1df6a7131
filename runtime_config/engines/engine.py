# SPDX-License-Identifier: Apache-2.0
"""What is asked of whoever edits the settings of a container engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cgpu.edits import FileEdit


@dataclass(frozen=True, slots=True)
class Wish:
    """What the settings shall say. runtime: the absolute path of cgpu-container-runtime."""

    runtime: Path
    default: bool = False


@dataclass(frozen=True, slots=True)
class Reload:
    """The command after which an engine knows its new settings.

    stops_containers: whether it ends running containers. An empty command: settings are read at each call.
    """

    command: tuple[str, ...]
    stops_containers: bool = False


class Editor(Protocol):
    """Plans changes of one engine's settings below a root folder; it writes nothing."""

    @property
    def name(self) -> str:
        """Return what --runtimes calls the engine."""

    def is_present(self, root: Path) -> bool:
        """Return whether the engine, or settings of it, are on this machine."""

    def plan_add(self, root: Path, wish: Wish) -> Sequence[FileEdit]:
        """Return the edits that add the runtime; none when it is there. Raises CgpuError."""

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take out only what plan_add() has put in. Raises CgpuError."""

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Return edits after which a reload makes a running engine let go of the runtime. Raises CgpuError.

        They come before those of plan_remove(), or before the original bytes are put back; none for an engine
        that forgets by itself what its settings no longer name.
        """

    def check(self, root: Path) -> None:
        """Let the engine itself check its settings where it can. Raises CgpuError with what it said."""

    def reload(self, root: Path) -> Reload:
        """Return how the engine learns of its new settings."""
