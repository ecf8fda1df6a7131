# SPDX-License-Identifier: Apache-2.0
"""Members added to the text of JSON objects and removed from it; every other character stays."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

STRING = r'"(?:[^"\\]|\\.)*"'
TOKEN = re.compile(STRING + r"|[{}\[\],:]|[^\s{}\[\],:\"]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """One key with its value, as positions in the text. end: after the value's last character."""

    name: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Object:
    """One object: where its brace opens, its members, where its brace closes."""

    opens: int
    members: tuple[Member, ...]
    closes: int

    def get(self, name: str) -> Member | None:
        """Return the member of that name."""
        return next((member for member in self.members if member.name == name), None)


def read(text: str, at: int = 0) -> Object:
    """Return the first object at or after a position of a valid JSON text, without looking into values."""
    opens = text.index("{", at)
    members: list[Member] = []
    start, name, value, end, depth = -1, "", -1, -1, 0
    for token in TOKEN.finditer(text, opens + 1):
        sign = token.group()
        if depth == 0 and sign in ",}":
            if start >= 0:
                members.append(Member(name, start, value, end))
            start, value = -1, -1
            if sign == "}":
                return Object(opens, tuple(members), token.start())
            continue
        if start < 0:
            start, name = token.start(), json.loads(sign)
        elif value < 0 and sign != ":":
            value = token.start()
        depth += (sign in "{[") - (sign in "}]")
        end = token.end()
    raise ValueError("the object does not end")


def add(text: str, place: Object, member: str, *, mark: str = "") -> str:
    """Return the text with one more member, laid out as the last one is.

    mark: space before the member of an object that has none yet.
    """
    if not place.members:
        return text[: place.opens + 1] + mark + member + text[place.opens + 1 :]
    last = place.members[-1]
    return f"{text[: last.end]},{layout(text, place)[0]}{member}{text[last.end :]}"


def write(members: Sequence[str], outer: str, unit: str) -> str:
    """Return an object. outer: the space before its closing brace; without a new line all is on one line."""
    if "\n" not in outer:
        return "{" + f",{outer}".join(members) + "}"
    return "{" + ",".join(f"{outer}{unit}{member}" for member in members) + outer + "}"


def layout(text: str, place: Object) -> tuple[str, str]:
    """Return the space before an object's last member, from its last new line on, and an indentation."""
    if not place.members:
        return " ", ""
    start, end = place.members[-1].start, place.members[-1].end
    space = text[len(text[:start].rstrip()) : start]
    line, indent = space.rpartition("\n")[::2]
    if "\n" not in space:
        return space or " ", ""
    outer = text[end : place.closes].rpartition("\n")[2]
    return ("\r\n" if line.endswith("\r") else "\n") + indent, indent.removeprefix(outer) or "    "


def remove(text: str, place: Object, member: Member) -> str:
    """Return the text without a member: one that add() has added, or any other."""
    at = place.members.index(member)
    if at:
        return text[: place.members[at - 1].end] + text[member.end :]
    if len(place.members) == 1:
        return text[: place.opens + 1] + text[member.end :]
    return text[: member.start] + text[place.members[1].start :]
