# SPDX-License-Identifier: Apache-2.0
"""A row: a version of the driver as JSON, checked against the table, and the line that engines are given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cgpu.errors import CgpuError, show
from cgpu.kmod.abi.generate import (
    Json,
    check_layout,
    check_nested,
    layout_at,
    number_names,
    numbers_at,
    once,
    order_of,
    version_key,
)

VERSION = re.compile(r"[1-9][0-9]{2}\.[0-9]{2,3}(\.[0-9]{2})?")
KEYS = ("version", "base", "structs", "behaviours")
# The engine has room for so many bytes more in the structs that it fills itself.
GROWTH = 64


def line_of(text: bytes, data: Json) -> tuple[str, str]:
    """Return a row's version, and its line for the engine. data: the table. Raises CgpuError."""
    try:
        row = _object(json.loads(text.decode(), object_pairs_hook=once), "the file", KEYS)
        version, base = _version(row, "version"), _version(row, "base")
        known = {version_key(tag) for tag in data["tags"] if tag not in data["unverified"]}
        if version_key(version) in known:
            raise ValueError(f"version: {version} is in the table: take the file away")
        if version_key(version) < min(known) or base not in data["tags"]:
            raise ValueError(f"version: {version} after {base}: expected a newer one, after one of the table")
        changed = dict(_changes(row, base, data))
    except (ValueError, RecursionError) as error:
        raise CgpuError(f"{error}; what is no mistake needs a newer OpenCGPU") from error
    before = zip(number_names(data), numbers_at(data, base), strict=True)
    numbers = [changed.get(name, number) for name, number in before]
    return version, " ".join(map(str, [version, order_of(data), *numbers]))


def _object(found: Any, what: str, keys: tuple[str, ...] | Json) -> Json:
    if not isinstance(found, dict) or not {*found} <= {*keys}:
        raise ValueError(
            f"{what}: {show(found)}: expected an object with no other names than {show(str([*keys]))}"
        )
    return found


def _version(row: Json, key: str) -> str:
    text = row.get(key)
    if not isinstance(text, str) or not VERSION.fullmatch(text):
        raise ValueError(f"{key}: {show(text)}: expected a version such as 595.45.04")
    return text


def _changes(row: Json, base: str, data: Json) -> Iterator[tuple[str, int]]:
    """Give the numbers that a row names, by their names. Raises ValueError."""
    given = _object(row.get("structs", {}), "structs", data["structs"])
    layouts = {
        name: _layout(name, one, layout_at(data["structs"][name], base)) for name, one in given.items()
    }
    check_nested(data, base, layouts)
    for name, layout in layouts.items():
        yield f"{name}.bytes", layout["size"]
        for field, (at, _) in layout["fields"].items():
            yield f"{name}.{field}", at
    for name, holds in _object(row.get("behaviours", {}), "behaviours", data["behaviours"]).items():
        if type(holds) is not bool:
            raise ValueError(f"{name}: {show(holds)}: expected true or false")
        yield name, int(holds)


def _layout(name: str, given: Any, base: Json | None) -> Json:
    """Return a struct's layout: that of the base, with the size and the offsets that are given."""
    if base is None:
        raise ValueError(f"{name}: the base has no such struct")
    offsets = _object(_object(given, name, ("size", "fields")).get("fields", {}), name, base["fields"])
    fields = {field: [offsets.get(field, at), size] for field, (at, size) in base["fields"].items()}
    layout = {"size": given.get("size", base["size"]), "fields": fields}
    check_layout(name, layout, base)
    if layout["size"] > base["size"] + GROWTH:
        raise ValueError(
            f"{name}: size {layout['size']}: expected at most {GROWTH} bytes more than {base['size']}"
        )
    return layout
