# SPDX-License-Identifier: Apache-2.0
"""Add a version of the driver to the tables, from its public headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.kmod.abi import collect_classes, collect_controls, judge
from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.collect_controls import facts_text
from cgpu.kmod.abi.extract import Headers, headers_of, measure_structs
from cgpu.kmod.abi.generate import version_key
from cgpu.kmod.abi.prototypes import read_prototypes
from cgpu.kmod.abi.tables import FUNCTIONS, RANGES, STRUCTS, Json, Layout, fold, load, save, spread
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
    functions = tables["nvidia.json"][FUNCTIONS]
    changes += _change(functions, RANGES[FUNCTIONS], read_prototypes(clone, tag, functions), tags, tag)
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
    structs = {name: struct for name, struct in table[STRUCTS].items() if has_header(struct)}
    return _change(structs, RANGES[STRUCTS], measure_structs(headers, structs), tags, headers.tag)


def _change(rows: Json, ranges: str, found: Mapping[str, Layout], tags: list[str], tag: str) -> Iterator[str]:
    for name, row in rows.items():
        known = spread(row[ranges], [one for one in tags if one != tag])
        before = [layout for one, layout in known.items() if version_key(one) < version_key(tag)]
        last = before[-1] if before else None
        row[ranges] = fold({**known, tag: found[name]})
        if found[name] != last:
            yield f"{name}: {_shape(last)} before, {_shape(found[name])} in {tag}"


def _shape(layout: Layout) -> str:
    if layout is None:
        return "none"
    return layout.get("prototype") or f"{layout['size']} bytes with {len(layout['fields'])} fields"


def _verdicts(facts: dict[str, Json], folder: Path) -> Iterator[str]:
    for name, rows in facts.items():
        judged = load(folder / judge.KINDS[name][1])[name]
        for number, row in judge.missing(name, rows, judged).items():
            proposed = f"{row['verdict']}, {row['why']}"
            yield f"{number} {row['name']}: no verdict in {name}.json; proposed: {proposed}"
