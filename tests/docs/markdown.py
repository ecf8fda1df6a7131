# SPDX-License-Identifier: Apache-2.0
"""Blocks and code spans of a document, read strictly: what is not understood is an error, not overlooked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = "```"
INDENT = "    "
LANGUAGES = ("sh", "text", "yaml")
HEADING = re.compile(r"#{1,6} (.+)")
# Within a list four blanks begin no block.
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class UnreadableError(Exception):
    """A document has something that the parser does not know; says where."""


@dataclass(frozen=True)
class Block:
    """A block of code. line: the number of its first, from 1. language: "" where it is indented."""

    heading: str
    line: int
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """Code within a line."""

    heading: str
    line: int
    text: str


def read(text: str) -> tuple[list[Block], list[Span]]:
    """Return all blocks and spans of a document. Raises UnreadableError."""
    blocks: list[Block] = []
    spans: list[Span] = []
    heading = ""
    lines = Lines(text)
    for number, line in lines:
        if line.startswith(FENCE):
            blocks.append(_fenced(lines, heading, number, line))
        elif line.startswith(INDENT) and not lines.in_item:
            blocks.append(_indented(lines, heading, number, line))
        else:
            if "\t" in line or FENCE in line:
                raise UnreadableError(f"line {number}: a tab, or a fence that does not begin its line")
            found = HEADING.fullmatch(line)
            heading = found[1] if found else heading
            spans += [Span(heading, number, one) for one in SPAN.findall(line)]
    return blocks, spans


class Lines:
    """The lines with their numbers; one can be looked at before it is taken."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._next = 0
        self.in_item = False

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield each line that nobody has taken."""
        while self._next < len(self._lines):
            yield self.take()

    def take(self) -> tuple[int, str]:
        line = self._lines[self._next]
        self._next += 1
        if line and not line.startswith(" "):
            self.in_item = ITEM.match(line) is not None
        return self._next, line

    def peek(self) -> str | None:
        """Return the next line, None at the end."""
        return self._lines[self._next] if self._next < len(self._lines) else None


def _fenced(lines: Lines, heading: str, number: int, opening: str) -> Block:
    language = opening.removeprefix(FENCE)
    if language not in LANGUAGES:
        raise UnreadableError(
            f"line {number}: {opening}: expected behind a fence: one of {', '.join(LANGUAGES)}"
        )
    found: list[str] = []
    while (line := lines.peek()) is not None:
        lines.take()
        if line == FENCE:
            return Block(heading, number + 1, language, tuple(found))
        if line.startswith(FENCE):
            raise UnreadableError(f"line {number}: another fence before the end of this one")
        found.append(line)
    raise UnreadableError(f"line {number}: the fence has no end")


def _indented(lines: Lines, heading: str, number: int, first: str) -> Block:
    found = [first]
    while (line := lines.peek()) is not None and line.startswith(INDENT):
        found.append(lines.take()[1])
    return Block(heading, number, "", tuple(line.removeprefix(INDENT) for line in found))
