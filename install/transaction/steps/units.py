# SPDX-License-Identifier: Apache-2.0
"""A unit of systemd is started for good, and stopped for good, also when its file is gone by then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cgpu.install.places import PACKAGE_UNITS, UNITS
from cgpu.install.transaction.context import Context
from cgpu.install.transaction.runner import must
from cgpu.roots import below

NOT_LOADED = 5  # systemctl's status for a unit that systemd does not know


@dataclass(frozen=True, slots=True)
class Unit:
    """The step, and its plan. starts: False for a unit that the user starts, and that is only stopped."""

    name: str
    title: str
    undo_title: str
    starts: bool = True

    @property
    def _start(self) -> tuple[str, ...]:
        return ("systemctl", "enable", "--now", f"{self.name}.service")

    @property
    def _disable(self) -> tuple[str, ...]:
        return ("systemctl", "disable", "--now", f"{self.name}.service")

    @property
    def _stop(self) -> tuple[str, ...]:
        return ("systemctl", "stop", f"{self.name}.service")

    def show(self, _context: Context, /) -> Iterator[str]:
        """Yield the command."""
        if self.starts:
            yield f"+ {' '.join(self._start)}"

    def undo_show(self, context: Context, /) -> Iterator[str]:
        """Yield the one that undoes."""
        yield f"+ {' '.join(self._disable if self._has_file(context.root) else self._stop)}"

    def prepare(self, _context: Context, /) -> Self:
        """Return itself."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the step for the record."""
        return {
            "kind": "unit",
            "name": self.name,
            "title": self.title,
            "undo_title": self.undo_title,
            "starts": self.starts,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the step that was kept."""
        name, title, undo_title = (str(document[key]) for key in ("name", "title", "undo_title"))
        return cls(name, title, undo_title, bool(document["starts"]))

    def apply(self, context: Context, /) -> None:
        """Start it, now and at each boot. Raises CgpuError."""
        if self.starts:
            must(context.runner, self._start)

    def revert(self, context: Context, /) -> None:
        """Stop it. Raises CgpuError."""
        if self._has_file(context.root):
            must(context.runner, self._disable)
            return
        # systemctl does not disable a unit without a file, though its link may exist and the unit may run.
        for target in below(context.root, UNITS).glob("*.wants"):
            (target / f"{self.name}.service").unlink(missing_ok=True)
        done = context.runner.run(self._stop)
        if done.status not in (0, NOT_LOADED):
            context.note(f"left to you: {' '.join(self._stop)} ({done.last_line()})")

    def _has_file(self, root: Path) -> bool:
        return any(below(root, f"{place}/{self.name}.service").exists() for place in (UNITS, *PACKAGE_UNITS))
