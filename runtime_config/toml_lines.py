# SPDX-License-Identifier: Apache-2.0
"""On which lines of a TOML file each table begins and each value stands."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

STRING = r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'"
# What matters on the way to the end of a key or value; all between is passed over.
TOKEN = re.compile(STRING + r"|#[^\n]*|[\[\]{}=\n]", re.DOTALL)
SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One header or one key with its value, and the lines it takes, counted from 0.

    is_table: a header of a plain table. key: the line up to the equals sign; names: how many parts it has.
    """

    path: tuple[str, ...]
    first: int
    last: int
    is_table: bool
    key: str = ""
    names: int = 0


def statements(text: str) -> list[Statement]:
    """Return what a valid TOML text states, in order."""
    found: list[Statement] = []
    table: tuple[str, ...] = ()
    at, line = 0, 0
    while True:
        space = SPACE.match(text, at)
        begin = space.end() if space else at
        line += text.count("\n", at, begin)
        if begin == len(text):
            return found
        if text[begin] == "[":
            at = _end_of_header(text, begin)
            plain = not text.startswith("[[", begin)
            table = _names(text[begin:at].strip("[] \t\r"))
            found.append(Statement(table, line, line, plain))
            continue
        equals = _find(text, begin, "=")
        at = _end_of_value(text, equals + 1)
        start = text.rfind("\n", 0, begin) + 1
        last = line + text.count("\n", begin, at)
        names = _names(text[begin:equals])
        key = text[start:equals]
        found.append(Statement((*table, *names), line, last, is_table=False, key=key, names=len(names)))
        line = last


def find_table(found: list[Statement], path: tuple[str, ...]) -> Statement | None:
    """Return the header of a table."""
    return next((one for one in found if one.is_table and one.path == path), None)


def find_value(found: list[Statement], path: tuple[str, ...]) -> Statement | None:
    """Return the statement that gives a key its value."""
    return next((one for one in found if one.key and one.path == path), None)


def _names(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, quotes taken off."""
    names: list[str] = []
    inner: object = tomllib.loads(f"{key} = 0")
    while isinstance(inner, dict):
        name, inner = next(iter(inner.items()))
        names.append(name)
    return tuple(names)


def _find(text: str, at: int, wanted: str) -> int:
    """Return where a sign stands outside of strings and comments, or the end of the text."""
    for token in TOKEN.finditer(text, at):
        if token.group() == wanted:
            return token.start()
    return len(text)


def _end_of_header(text: str, at: int) -> int:
    at = _find(text, at, "]")
    return at + 2 if text.startswith("]]", at) else at + 1


def _end_of_value(text: str, at: int) -> int:
    """Return where the line ends that a value ends on."""
    depth = 0
    for token in TOKEN.finditer(text, at):
        sign = token.group()
        if sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "\n" and depth <= 0:
            return token.start()
    return len(text)
