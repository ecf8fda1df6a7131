# SPDX-License-Identifier: Apache-2.0
"""The table of drivers as data, and copies of the program with a mistake in theirs."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from cgpu.check_driver.run import PROGRAM
from cgpu.kmod.abi.generate import (
    ABSENT,
    DATA,
    Json,
    all_fields,
    holds_at,
    layout_at,
    struct_row,
    version_key,
)

# Checks that have the driver make duplicates.
DUPLICATES = ["DUP_OBJECT", "export and import", "export and import of a list"]
TABLE: Json = json.loads(DATA.read_text())


def row_of(tag: str) -> list[int]:
    """Return the numbers of a version's layouts, in the order of the generated table."""
    numbers = [number for one in TABLE["structs"].values() for number in struct_row(one, tag)]
    return numbers + [int(holds_at(one, tag)) for one in TABLE["behaviours"].values()]


def first_versions() -> list[str]:
    """Return the first version of each set of layouts, oldest first."""
    seen: dict[tuple[int, ...], str] = {}
    for tag in sorted(TABLE["tags"], key=version_key):
        seen.setdefault(tuple(row_of(tag)), tag)
    return list(seen.values())


def last_versions() -> list[str]:
    """Return the last version of each set of layouts, oldest first."""
    seen = {tuple(row_of(tag)): tag for tag in sorted(TABLE["tags"], key=version_key)}
    return sorted(seen.values(), key=version_key)


def version_below(tag: str) -> str:
    """Return a version that is not in the table, newer than all that are older than the one given."""
    major, minor, patch = version_key(tag)
    text = f"{major}.{minor:02}.{patch - 1:02}" if patch else f"{major}.{minor - 1:02}.99"
    assert text not in TABLE["tags"]
    return text


def version_above(tag: str) -> str:
    """Return the first version after the one given that is not in the table."""
    major, minor, patch = version_key(tag)
    known = {version_key(one) for one in TABLE["tags"]}
    while (major, minor, patch) in known:
        patch += 1
    return f"{major}.{minor:02}.{patch:02}"


def _places() -> dict[tuple[str, str], int]:
    """Return where in a row each field has its offset, and a structure its size, which is called bytes."""
    found: dict[tuple[str, str], int] = {}
    for name, one in TABLE["structs"].items():
        for field in ("bytes", *all_fields(one)):
            found[name, field] = len(found)
    return found


PLACES = _places()


def has(name: str, field: str, tag: str) -> bool:
    """Tell whether a version has a structure, and a field of it."""
    layout = layout_at(TABLE["structs"][name], tag)
    return layout is not None and (field == "bytes" or field in layout["fields"])


def moved(name: str, field: str, tag: str) -> list[int]:
    """Return wrong offsets for a field, beside the right one; wrong sizes for a structure."""
    layout = layout_at(TABLE["structs"][name], tag)
    assert layout is not None, f"{tag} has no {name}"
    if field == "bytes":
        return [layout["size"] - (4 if layout["size"] > 4 else 1), layout["size"] + 4]
    at, size = layout["fields"][field]
    step = size if size <= 8 else 4
    return [wrong for wrong in (at - step, at + step) if 0 <= wrong <= layout["size"] - size]


def mutant(name: str, field: str, wrong: int, tag: str, directory: Path) -> Path:
    """Return a copy of the program in whose table a version has one number wrong."""
    row = row_of(tag)
    place = PLACES[name, field]
    assert row[place] not in (wrong, ABSENT)
    text = bytearray(PROGRAM.read_bytes())
    packed = struct.pack(f"<{len(row)}H", *row)
    assert text.count(packed) == 1, "the program's table is not where it was expected"
    struct.pack_into("<H", text, text.index(packed) + 2 * place, wrong)
    copy = directory / f"{name}-{field}-{wrong}"
    copy.write_bytes(text)
    copy.chmod(0o755)
    return copy
