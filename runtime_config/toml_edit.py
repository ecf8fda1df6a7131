# SPDX-License-Identifier: Apache-2.0
"""TOML read, and edited by marked blocks whose effect is checked against what the text said before."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from cgpu.errors import CgpuError
from cgpu.runtime_config import toml_block, toml_values
from cgpu.runtime_config.toml_lines import find_table, find_value, statements


def parse(name: str, text: str) -> dict[str, object]:
    """Parse TOML. Raises CgpuError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CgpuError(f"{name}: {error}; TOML is accepted") from error


def child(parent: object, *names: str) -> object:
    """Return a value deep in a parsed file, None where a name on the way is missing."""
    for name in names:
        parent = parent.get(name) if isinstance(parent, dict) else None
    return parent


def check(name: str, before: str, after: str, wanted: Mapping[tuple[str, ...], object]) -> None:
    """Raise CgpuError unless an edited text says the same as before but for the wanted values."""
    settings = parse(name, before)
    try:
        found = parse(name, after)
        for path, value in wanted.items():
            _set(settings, path, value)
        done = same(found, settings)
    except CgpuError:
        done = False
    if not done:
        key = toml_values.key(*next(iter(wanted)))
        raise CgpuError(
            f"{name}: {key} cannot be added: an earlier line gives what holds it another form "
            "(an inline table?): write that as [table] lines"
        )


def same(left: object, right: object) -> bool:
    """Return whether two parsed values are alike: types too, and not-a-number is like itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right) if isinstance(left, float) else left == right


def put(name: str, text: str, path: tuple[str, ...], value: object) -> str:
    """Return the text with a key set by a marked block. Raises CgpuError when that cannot be."""
    found = statements(text)
    there = find_value(found, path)
    table = find_table(found, path[:-1])
    beside = next((one for one in found if one.key and one.path[:-1] == path[:-1]), None)
    written = toml_values.value(value)
    if there is not None:
        edited = toml_block.replace(text, [f"{there.key}= {written}"], there.first, there.last)
    elif table is not None:
        edited = toml_block.insert(text, [f"{toml_values.key(path[-1])} = {written}"], table.last + 1)
    elif beside is not None:  # a dotted key in another table
        key = toml_values.key(*path[-beside.names :])
        edited = toml_block.insert(text, [f"{key} = {written}"], beside.last + 1)
    else:
        lines = [f"[{toml_values.key(*path[:-1])}]", f"{toml_values.key(path[-1])} = {written}"]
        edited = toml_block.insert(text, lines)
    check(name, text, edited, {path: value})
    return edited


def _set(settings: dict[str, object], path: tuple[str, ...], value: object) -> None:
    table = settings
    for name in path[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise CgpuError(f"{name}: a table is accepted")
        table = inner
    table[path[-1]] = value
