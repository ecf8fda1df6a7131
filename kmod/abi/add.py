# SPDX-License-Identifier: Apache-2.0
"""Add a version of the driver to the tables, from its public headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.kmod.abi import collect_classes, collect_controls, judge
from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.collect_controls import facts_text
from cgpu.kmod.abi.extract import Headers, headers_of, measure_structs
from cgpu.kmod.abi.generate import version_key
from cgpu.kmod.abi.tables import STRUCTS, Json, fold, load, save, spread
from cgpu.kmod.abi.verify import compare_numbers, has_header, new_calls

HERE = Path(__file__).parent
TABLES = ("nvidia.json", "card.json")


@dataclass(frozen=True, slots=True)
class Kind:
    """Facts that are collected of all versions at once."""

    about: str
    collect: Callable[[Clone, list[str]], Json]


KINDS = {
    "controls": Kind(collect_controls.ABOUT, collect_controls.collect),
    "classes": Kind(collect_classes.ABOUT, collect_classes.collect),
}


def add_version(clone: Clone, tag: str, folder: Path = HERE) -> Iterator[str]:
    """Write the tables with one version more; give a line for each change and each missing verdict.

    folder: where the tables are. Nothing is written before all has been read. Raises CgpuError.
    """
    tables = {name: load(folder / name) for name in TABLES}
    tags = [*tables["nvidia.json"]["tags"], tag]
    if tag in tags[:-1]:
        raise CgpuError(f"{tag}: is in the tables; compare it with: cgpu abi verify CLONE {tag}")
    tags.sort(key=version_key)
    changes: list[str] = []
    with headers_of(clone, tag) as headers:
        wrong = [line for table in tables.values() for line in compare_numbers(headers, table)[1]]
        if wrong:
            # A number has one value for all versions: what differs needs a row of `behaviours`, and code.
            raise CgpuError(f"{tag}: {'; '.join(wrong)}; expected the numbers of the tables")
        for table in tables.values():
            changes += change_structs(headers, table, tags)
    before = [one for one in clone.known(tags) if version_key(one) < version_key(tag)]
    if before:
        changes += [
            f"{name}: a new call; refused until somebody has judged it"
            for name in new_calls(clone, tag, before[-1])
        ]
    tables["nvidia.json"]["tags"] = tags
    facts = {name: kind.collect(clone, clone.known(tags)) for name, kind in KINDS.items()}
    for name, table in tables.items():
        save(folder / name, table)
    for name, rows in facts.items():
        path = folder / judge.KINDS[name][0]
        path.write_text(facts_text(name, KINDS[name].about, clone.known(tags), rows), encoding="utf-8")
    yield from changes
    yield from _verdicts(facts, folder)
    yield f"{tag}: added"


def change_structs(headers: Headers, table: Json, tags: list[str]) -> Iterator[str]:
    """Put one version's layouts into a table, and give a line for each struct that changed with it.

    tags: all versions, this one among them. A struct that no header has keeps its layouts.
    """
    others = [one for one in tags if one != headers.tag]
    measured = measure_structs(headers, table[STRUCTS])
    for name, struct in table[STRUCTS].items():
        if not has_header(struct):
            continue
        known = spread(struct, others)
        before = {one: layout for one, layout in known.items() if version_key(one) < version_key(headers.tag)}
        last = next(reversed(before.values()), None)
        struct["layouts"] = fold({**known, headers.tag: measured[name]})
        if measured[name] != last:
            yield f"{name}: {_size(last)} before, {_size(measured[name])} in {headers.tag}"


def _size(layout: Json | None) -> str:
    if layout is None:
        return "no such struct"
    return f"{layout['size']} bytes with {len(layout['fields'])} fields"


def _verdicts(facts: dict[str, Json], folder: Path) -> Iterator[str]:
    for name, rows in facts.items():
        judged = load(folder / judge.KINDS[name][1])[name]
        for number, row in judge.missing(name, rows, judged).items():
            proposed = f"{row['verdict']}, {row['why']}"
            yield f"{number} {row['name']}: no verdict in {name}.json; proposed: {proposed}"
