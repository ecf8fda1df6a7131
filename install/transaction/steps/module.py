# SPDX-License-Identifier: Apache-2.0
"""The kernel module is loaded, and unloaded with whatever core an upgrade has brought since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from cgpu import paths
from cgpu.install.transaction.context import Context
from cgpu.install.transaction.runner import must
from cgpu.roots import below

MODULE = "cgpu_km"
CORE = "cgpu_core_"
LOADED = "/sys/module"


@dataclass(frozen=True, slots=True)
class LoadModule:
    """Loads cgpu_km, which brings its core. Plan and step."""

    title: str = "loads cgpu_km"
    undo_title: str = "unloads cgpu_km"

    def show(self, _context: Context, /) -> Iterator[str]:
        """Yield the command."""
        yield f"+ modprobe {MODULE}"

    def undo_show(self, context: Context, /) -> Iterator[str]:
        """Yield those that undo."""
        yield from (f"+ rmmod {name}" for name in loaded(context))

    def prepare(self, _context: Context, /) -> Self:
        """Return itself."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the step for the record."""
        return {"kind": "module"}

    @classmethod
    def from_json(cls, _document: Mapping[str, Any]) -> Self:
        """Return the step that was kept."""
        return cls()

    def apply(self, context: Context, /) -> None:
        """Load it. Raises CgpuError."""
        must(context.runner, ("modprobe", MODULE))

    def revert(self, context: Context, /) -> None:
        """Unload what is loaded. Raises CgpuError."""
        # Not modprobe -r: it would unload NVIDIA's idle driver, too.
        for name in loaded(context):
            must(context.runner, ("rmmod", name))
        below(context.root, paths.UPGRADING).unlink(missing_ok=True)


def loaded(context: Context) -> list[str]:
    """Return our modules that are loaded, in the order in which they can be unloaded."""
    folder = below(context.root, LOADED)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [*sorted(name for name in names if name.startswith(CORE)), *([MODULE] if MODULE in names else [])]
