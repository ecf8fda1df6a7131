# SPDX-License-Identifier: Apache-2.0
"""Tables written as TOML."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence

BARE = re.compile(r"[A-Za-z0-9_-]+")


def string(text: str) -> str:
    """Return a basic string. JSON's escapes are TOML's, but for characters that need no escape there."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(*names: str) -> str:
    """Return a dotted key."""
    return ".".join(name if BARE.fullmatch(name) else string(name) for name in names)


def value(of: object) -> str:
    """Return a value of a parsed file on one line."""
    if isinstance(of, str):
        return string(of)
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, Mapping):
        return "{" + ", ".join(f"{key(name)} = {value(inner)}" for name, inner in of.items()) + "}"
    if isinstance(of, (list, tuple)):
        return "[" + ", ".join(map(value, of)) + "]"
    if isinstance(of, (dt.datetime, dt.date, dt.time)):
        return of.isoformat()
    return repr(of)


def table(path: Sequence[str], content: Mapping[str, object]) -> list[str]:
    """Return the lines of a table, then those of the tables in it."""
    lines = [f"[{key(*path)}]"]
    lines += [f"{key(name)} = {value(of)}" for name, of in content.items() if not isinstance(of, Mapping)]
    for name, of in content.items():
        if isinstance(of, Mapping):
            lines += table((*path, name), of)
    return lines
