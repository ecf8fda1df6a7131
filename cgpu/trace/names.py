# SPDX-License-Identifier: Apache-2.0
"""The driver's numbers by name, and where fields lie, out of the tables in kmod/abi."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ABI = Path(__file__).resolve().parent.parent / "kmod" / "abi"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """Size of a structure, and offset and size of its fields, in bytes."""

    size: int
    fields: dict[str, tuple[int, int]]

    def put(self, data: bytearray, name: str, value: int) -> None:
        """Set a field; one that this version lacks, or too large a value, is left out."""
        at, size = self.fields.get(name, (0, 0))
        if size and value.bit_length() <= 8 * size:
            data[at : at + size] = value.to_bytes(size, "little")

    def get(self, data: bytearray, name: str) -> int:
        """Return a field; 0 for one that this version lacks."""
        at, size = self.fields.get(name, (0, 0))
        return int.from_bytes(data[at : at + size], "little")


@cache
def facts() -> Document:
    """Return the driver's interface."""
    document: Document = json.loads((ABI / "nvidia.json").read_text())
    return document


@cache
def recorded() -> Document:
    """Return what a trace may say of it."""
    document: Document = json.loads((ABI / "trace.json").read_text())
    return document


def key(version: str) -> tuple[int, ...]:
    """Return a version as numbers."""
    parts = [int(part) for part in version.split(".")]
    return (*parts, 0) if len(parts) == 2 else tuple(parts)


@cache
def layout(name: str, version: str) -> Layout | None:
    """Return a structure's layout in a driver version."""
    for one in facts()["structs"].get(name, {"layouts": []})["layouts"]:
        if key(one["first"]) <= key(version) <= key(one["last"]):
            return Layout(one["size"], {k: (v[0], v[1]) for k, v in one["fields"].items()})
    return None


def known_version(version: str) -> bool:
    """Say whether the tables have this very version."""
    return key(version) in {key(tag) for tag in facts()["tags"]}


# The tables whose names stand for a number, and what the number is called there.
NUMBERS = {"escapes": "nr", "classes": "id", "controls": "cmd", "statuses": "value"}


def constant(name: str) -> int:
    """Return one of the driver's numbers."""
    table = facts()
    for group, member in NUMBERS.items():
        if name in table[group]:
            return int(table[group][name][member])
    return int(table["constants"][name]["value"], 0)


@cache
def _by_number(group: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for name, entry in facts()[group].items():
        found.setdefault(entry[NUMBERS[group]], name)
    return found


def name_of(group: str, number: int) -> str:
    """Return the name of a number of NUMBERS; the number where it has none."""
    return _by_number(group).get(number, f"0x{number:x}")


def function_name(number: int) -> str:
    """Return a function of the heap by name where the recorder knows it."""
    for name in recorded()["heap_functions"]:
        if constant(name) == number:
            return str(name)
    return str(number)


@cache
def kinds(form: str) -> dict[str, str]:
    """Return the kind of every recorded field of a structure, its arms included."""
    found: dict[str, str] = {}
    for name, fields in recorded()["structs"].items():
        if name.partition(":")[0] == form:
            found |= fields
    return found
