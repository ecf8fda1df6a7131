# SPDX-License-Identifier: Apache-2.0
"""The table of lanes: what `make check` runs, and what a shard runs in place of `make test`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("lanes.toml")
MACHINE_TESTS = "tests/vm"
# A command of a shard that lacks what it needs, and so was not run, ends with this status; pytest never does.
NOT_RUN = 77


class LaneError(Exception):
    """Why a lane cannot run, or its result cannot be written: one line for whoever asked for it."""


@dataclass(frozen=True)
class Shard:
    """One part of `make test-release`.

    `tests` are what `make test` leaves out: paths, or names of tests. `commands` run them, or whatever else
    the shard is about; without commands, pytest runs `tests`. `takes_turns`: whether continuous integration
    runs the shard when its turn comes.
    """

    name: str
    says: str
    tests: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    takes_turns: bool = True


@dataclass(frozen=True)
class Table:
    """The content of lanes.toml."""

    check: tuple[str, ...]
    machine: tuple[str, ...]
    together: tuple[str, ...]
    shards: tuple[Shard, ...]

    def shard_of(self, name: str) -> str | None:
        """Return the shard that runs a test in place of `make test`."""
        places = self._places
        return next((places[prefix] for prefix in prefixes(name) if prefix in places), None)

    def is_of_test(self, name: str) -> bool:
        """Say whether `make test` runs a test: here, or in its machine."""
        is_here = not name.startswith(f"{MACHINE_TESTS}/")
        return self.shard_of(name) is None and (is_here or not set(prefixes(name)).isdisjoint(self.machine))

    def scope_of(self, name: str) -> str:
        """Return what one process runs as a whole: the file of a test, or a folder of `together`."""
        path = name.split("::", 1)[0]
        return next((folder for folder in self.together if path.startswith(f"{folder}/")), path)

    def shard(self, name: str) -> Shard:
        """Return a shard by its name. Raises KeyError."""
        return next(shard for shard in self.shards if shard.name == name)

    @cached_property
    def _places(self) -> Mapping[str, str]:
        return {place: shard.name for shard in self.shards for place in shard.tests}


def prefixes(name: str) -> list[str]:
    """Return what a table may call a test: its name, with parameters or without, its file, its folders."""
    path, _, test = name.partition("::")
    folders = path.split("/")
    found = ["/".join(folders[:length]) for length in range(len(folders), 0, -1)]
    if test:
        parts = test.partition("[")[0].split("::")
        found = [
            name,
            *(f"{path}::{'::'.join(parts[:length])}" for length in range(len(parts), 0, -1)),
            *found,
        ]
    return found


def read_table(path: Path = TABLE) -> Table:
    """Read the table."""
    read = tomllib.loads(path.read_text())
    return Table(
        check=tuple(read["check"]["tests"]),
        machine=tuple(read["test"]["machine"]),
        together=tuple(read["test"]["together"]),
        shards=tuple(shard(name, row) for name, row in read["shards"].items()),
    )


def shard(name: str, row: Mapping[str, Any]) -> Shard:
    """Return the shard of a row."""
    return Shard(
        name=name,
        says=row["says"],
        tests=tuple(row.get("tests", ())),
        commands=tuple(tuple(command) for command in row.get("commands", ())),
        takes_turns=row.get("takes_turns", True),
    )
