# SPDX-License-Identifier: Apache-2.0
"""What is left to the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from cgpu.install.transaction.context import Context


@dataclass(frozen=True, slots=True)
class Note:
    """A step that the user has to take. do: now; undo: when the installation is taken back. Plan and step."""

    do: str
    undo: str = ""

    @property
    def title(self) -> str:
        """Return nothing: it is said at the end."""
        return ""

    @property
    def undo_title(self) -> str:
        """Return nothing, as above."""
        return ""

    def show(self, _context: Context, /) -> Iterator[str]:
        """Yield the line itself."""
        if self.do:
            yield f"left to you: {self.do}"

    def prepare(self, _context: Context, /) -> Self:
        """Return itself."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the step for the record."""
        return {"kind": "note", "do": self.do, "undo": self.undo}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the step that was kept."""
        return cls(str(document["do"]), str(document["undo"]))

    def apply(self, context: Context, /) -> None:
        """Keep the line for the end."""
        if self.do:
            context.note(f"left to you: {self.do}")

    def revert(self, context: Context, /) -> None:
        """Keep the other line for the end."""
        if self.undo:
            context.note(f"left to you: {self.undo}")

    def undo_show(self, _context: Context, /) -> Iterator[str]:
        """Yield the other line."""
        if self.undo:
            yield f"left to you: {self.undo}"
