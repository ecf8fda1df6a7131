# SPDX-License-Identifier: Apache-2.0
"""The tables of the driver's interface as files: read, changed by one version, and written in one form.

A layout holds from its `first` version until the next one, or to `last` where later versions lack the struct;
the prototype of a function likewise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cgpu.kmod.abi.generate import layout_at, once, version_key

IN_LINE = 10
STRUCTS = "structs"
FUNCTIONS = "functions"
# Sections whose rows have ranges of versions, and the key of those.
RANGES = {STRUCTS: "layouts", FUNCTIONS: "prototypes"}

Json = dict[str, Any]
Layout = Json | None
"""Size and fields of a struct, or a function's prototype, as in nvidia.json; None: a version has none."""


def load(path: Path) -> Json:
    """Read a table. Raises OSError, ValueError."""
    found: Json = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)
    return found


def save(path: Path, table: Json) -> None:
    """Write a table: the same facts are the same bytes. Raises OSError."""
    path.write_text("{\n" + ",\n".join(_sections(table)) + "\n}\n", encoding="utf-8")


def fold(known: Mapping[str, Layout]) -> list[Json]:
    """Return the layouts of one struct, or the prototypes of one function, of what each version has.

    known: by version. The versions that lack it are between a `last` and the next `first`.
    """
    runs: list[Json] = []
    current: Layout = None
    before = ""
    for tag in sorted(known, key=version_key):
        layout = known[tag]
        if layout is None and current is not None:
            runs[-1] = {"first": runs[-1]["first"], "last": before, **current}
        elif layout != current and layout is not None:
            runs.append({"first": tag, **layout})
        current, before = layout, tag
    return runs


def spread(runs: Sequence[Json], tags: Sequence[str]) -> dict[str, Layout]:
    """Return what each version has of a struct or function: the reverse of fold()."""
    found: dict[str, Layout] = {}
    for tag in tags:
        layout = layout_at({"layouts": runs}, tag)
        found[tag] = layout and {key: layout[key] for key in layout if key not in ("first", "last")}
    return found


def _sections(table: Json) -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, list):
            yield f" {json.dumps(name)}: [\n{_lines(value)}\n ]"
        elif name in RANGES:
            yield f" {json.dumps(name)}: {{\n" + ",\n".join(_ranges(value, RANGES[name])) + "\n }"
        elif isinstance(value, dict) and any(isinstance(one, dict) for one in value.values()):
            rows = (f"  {json.dumps(key)}: {_text(row)}" for key, row in value.items())
            yield f" {json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n }"
        else:
            yield f" {json.dumps(name)}: {_text(value)}"


def _ranges(rows: Json, ranges: str) -> Iterator[str]:
    for name, row in rows.items():
        head = ", ".join(f"{json.dumps(key)}: {_text(value)}" for key, value in row.items() if key != ranges)
        runs = ",\n".join(f"   {json.dumps(run)}" for run in row[ranges])
        yield f'  {json.dumps(name)}: {{{head}, "{ranges}": [\n{runs}\n  ]}}'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(words: Sequence[str]) -> str:
    rows = (", ".join(map(json.dumps, words[at : at + IN_LINE])) for at in range(0, len(words), IN_LINE))
    return ",\n".join(f"  {row}" for row in rows)
