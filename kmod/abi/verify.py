# SPDX-License-Identifier: Apache-2.0
"""Compare the tables with the public headers and sources of a version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.extract import Headers, header_of, measure_numbers, measure_structs
from cgpu.kmod.abi.prototypes import read_prototypes
from cgpu.kmod.abi.tables import FUNCTIONS, RANGES, STRUCTS, Json, Layout, spread

# Sections of numbers, and the key of a row's number.
NUMBERS = {
    "constants": "value",
    "controls": "cmd",
    "classes": "id",
    "fb_info_indices": "index",
    "escapes": "nr",
    "statuses": "value",
}
UINT32 = 0xFFFFFFFF
ESCAPE = re.compile(r"^#define\s+(NV_ESC_\w+)\s", re.MULTILINE)
UVM_CALL = re.compile(r"^#define\s+(UVM_\w+)\s+UVM_IOCTL_BASE\(", re.MULTILINE)
# Headers that number calls, and how a line there names one.
CALLS = {
    "src/nvidia/arch/nvalloc/unix/include/nv_escape.h": ESCAPE,
    "kernel-open/common/inc/nv-ioctl-numbers.h": ESCAPE,
    "kernel-open/nvidia-uvm/uvm_ioctl.h": UVM_CALL,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one version. wrong: a line for each difference. absent: names without a header."""

    tag: str
    structs: int
    numbers: int
    functions: int
    wrong: tuple[str, ...]
    absent: tuple[str, ...]


def compare(clone: Clone, headers: Headers, tables: list[Json]) -> Comparison:
    """Compare the tables with one version. Raises CgpuError where it cannot be read."""
    counts = {STRUCTS: 0, FUNCTIONS: 0}
    numbers = 0
    wrong: list[str] = []
    absent: list[str] = []
    for table in tables:
        structs = {name: struct for name, struct in table[STRUCTS].items() if has_header(struct)}
        functions = table.get(FUNCTIONS, {})
        for section, rows, found in (
            (STRUCTS, structs, measure_structs(headers, structs)),
            (FUNCTIONS, functions, read_prototypes(clone, headers.tag, functions)),
        ):
            counts[section] += len(rows)
            wrong += _differences(rows, RANGES[section], found, headers.tag)
        compared, lines, missing = compare_numbers(headers, table)
        numbers += compared
        wrong += lines
        absent += missing
    return Comparison(headers.tag, counts[STRUCTS], numbers, counts[FUNCTIONS], tuple(wrong), tuple(absent))


def has_header(entry: Json) -> bool:
    """Tell whether a public header of the driver defines a thing of the tables."""
    return header_of(entry["source"]).endswith(".h") and "/" in header_of(entry["source"])


def compare_numbers(headers: Headers, table: Json) -> tuple[int, list[str], list[str]]:
    """Return how many numbers were compared, a line for each that differs, and names that no header has."""
    rows = {
        name: {"source": row["source"], "value": row[key]}
        for section, key in NUMBERS.items()
        for name, row in table.get(section, {}).items()
        if has_header(row)
    }
    found = measure_numbers(headers, rows)
    wrong = [
        f"{name}: {row['value']} in the table, {found[name][0]} in the headers"
        for name, row in rows.items()
        if name in found and not _is_same(*found[name])
    ]
    return len(found), wrong, [name for name in rows if name not in found]


def new_calls(clone: Clone, tag: str, before: str) -> list[str]:
    """Return the names of escapes and calls of UVM that a version has, and the one before it lacks."""
    return [name for name in _calls(clone, tag) if name not in _calls(clone, before)]


def _calls(clone: Clone, tag: str) -> list[str]:
    found: list[str] = []
    for path, pattern in CALLS.items():
        for _, blob in clone.files(tag, path, "."):
            found += clone.parse(blob, pattern.findall)
    return found


def _differences(rows: Json, ranges: str, found: Mapping[str, Layout], tag: str) -> Iterator[str]:
    for name, row in rows.items():
        known = spread(row[ranges], [tag])[tag]
        if known != found[name]:
            yield f"{name}: {known} in the table, {found[name]} in the sources"


def _is_same(found: str, wanted: str) -> bool:
    """Compare numbers of 32 bits, or ranges of bits. The tables have the mask of some ranges."""
    if ":" not in found:
        return ":" not in wanted and int(found) & UINT32 == int(wanted) & UINT32
    if ":" in wanted:
        return found == wanted
    high, low = (int(part) for part in found.split(":"))
    return int(wanted) == ((1 << (high - low + 1)) - 1) << low
