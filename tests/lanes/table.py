# SPDX-License-Identifier: Apache-2.0
"""The table of lanes: tests of `make check`, and those that a shard runs in place of `make test`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("lanes.toml")
MACHINE_TESTS = "tests/vm"
PLACES = ("tests/", "scripts/")
# A command of a shard that lacks what it needs, and so was not run, ends with this status; pytest never does.
NOT_RUN = 77


class LaneError(Exception):
    """Why a lane cannot run, or its result cannot be written: one line for the user."""


@dataclass(frozen=True)
class Shard:
    """One part of `make test-release`.

    `tests` are left out of `make test`: paths, or names of tests. `commands` run them, or other work of the
    shard; without commands, pytest runs `tests`. `takes_turns`: whether continuous integration runs the shard
    when its turn comes.
    """

    name: str
    says: str
    tests: Sequence[str] = ()
    commands: Sequence[Sequence[str]] = ()
    takes_turns: bool = True


@dataclass(frozen=True)
class Table:
    """The content of lanes.toml."""

    check: Sequence[str]
    machine: Sequence[str]
    together: Sequence[str]
    shards: Sequence[Shard]

    def shard_of(self, name: str) -> str | None:
        """Return the shard that runs a test in place of `make test`."""
        places = self.places
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
    def places(self) -> Mapping[str, str]:
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


def read_table() -> Table:
    """Read the table. Raises LaneError where it is not well formed, or says what is not so."""
    # A pytest without lanes needs none.
    import jsonschema

    try:
        read = tomllib.loads(TABLE.read_text())
        jsonschema.validate(read, json.loads(TABLE.with_suffix(".schema.json").read_text()))
    except (tomllib.TOMLDecodeError, jsonschema.ValidationError) as error:
        raise LaneError(
            f"{TABLE}: {getattr(error, 'json_path', '')} {getattr(error, 'message', error)}"
        ) from error
    shards = tuple(Shard(name, **row) for name, row in read["shards"].items())
    table = Table(check=read["check"]["tests"], **read["test"], shards=shards)
    for fault in faults(table):
        raise LaneError(f"{TABLE}: {fault}")
    return table


def faults(table: Table) -> Iterator[str]:
    """Yield what is wrong with the names in a table."""
    named = [*table.check, *table.machine, *table.together]
    for shard in table.shards:
        words = {word for command in shard.commands for word in command}
        paths = [path for path in (word.rpartition("=")[2] for word in words) if path.startswith(PLACES)]
        named += [*shard.tests, *paths]
        if not shard.tests and not shard.commands:
            yield f"shard {shard.name}: neither tests nor commands"
        for name in shard.tests:
            if words and words.isdisjoint(prefixes(name)):
                yield f"shard {shard.name}: no command of it runs {name}"
            if table.places[name] != shard.name:
                yield f"{name}: named by two shards"
    yield from (f"{name}: not there" for name in named if not is_there(name))


def is_there(name: str) -> bool:
    """Say whether there is such a folder or file, and in the file a function of that name."""
    path, _, test = name.partition("::")
    function = test.partition("[")[0].rpartition("::")[2]
    place = ROOT / path
    return place.exists() and (not test or f"def {function}(" in place.read_text())
