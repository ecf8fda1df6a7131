# SPDX-License-Identifier: Apache-2.0
"""Place of an attack: one card, one engine, and slices in which programs run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.integration.probe import Printed

MIB = 1 << 20
# A whole number neither of large pages nor of small ones of the fills below.
LIMIT = 1000 * MIB + (64 << 10)
DAEMON, MODULE = "cgpud", "cgpu_km"

Word = str | int | Path
"""One word of a command; a Path lies on the machine where the tests run."""


@dataclass(frozen=True)
class Seen:
    """Bytes that the engine charges to a slice, and that the card says it has given to all."""

    charged: int
    card: int


class Running(Protocol):
    """A program in a slice that has not ended yet."""

    def line(self, start: str) -> str:
        """Wait for its next line that begins so, and return it."""

    def go_on(self) -> None:
        """Send it a line."""

    def kill(self) -> None:
        """End it and all of its process group by SIGKILL; does not wait."""

    def finish(self) -> Printed:
        """End its standard input, wait for its end, and return what it printed."""


class Tenant(Protocol):
    """One slice of the card."""

    def run(self, *command: Word) -> Printed:
        """Run a command in it to its end."""

    def start(self, *command: Word) -> Running:
        """Start a command in it."""


class Harness(Protocol):
    """A node with one T4. Processes that an attack leaves end with it."""

    engine: str
    emulated: bool
    """An emulator runs its processors one after the other: threads are seldom at work at the same time."""
    pooled: int
    """Bytes that the driver may keep for itself once nobody has anything."""
    dev: str
    """The folder of the device nodes there."""
    scratch: str
    """A folder there that is empty at first."""

    def tenant(self) -> Tenant:
        """Return a slice of LIMIT bytes, another one each time."""

    def outside(self, *command: Word) -> Running:
        """Start a command that is in no slice."""

    def seen(self, tenant: Tenant) -> Seen:
        """Look at engine and card at once."""

    def refused(self) -> int:
        """Return how many calls of all slices the engine has refused so far."""

    def drift(self) -> int:
        """Return what the engine says that the card is short of beyond what is charged, in bytes."""

    def log(self) -> str:
        """Return what the engine has logged."""

    def path(self, path: Path) -> str:
        """Return where a file of this machine lies there."""

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something holds; fail with what when it never does."""
