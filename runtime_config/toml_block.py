# SPDX-License-Identifier: Apache-2.0
"""Marked blocks in a TOML file. Everything around them stays as it is, to the last space.

Lines that a block stands in for are kept inside it as comments, and come back when it goes: no file needs a
record elsewhere of what it was. A library that edits TOML by its meaning (tomlkit) keeps comments, not that.
"""

from __future__ import annotations

from collections.abc import Sequence

from cgpu.errors import CgpuError

BEGIN = "# >>> cgpu-runtime-config: added, do not edit"
BEGIN_IN_LINE = BEGIN + " (the line before had no end)"
END = "# <<< cgpu-runtime-config"
WAS = "#was: "
WAS_IN_LINE = "#was, without an end: "


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends. Only what ends a line in TOML does."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def insert(text: str, lines: Sequence[str], at: int | None = None) -> str:
    """Return the text with a block after its first `at` lines, or at its end."""
    existing = lines_of(text)
    at = len(existing) if at is None else at
    before, after = "".join(existing[:at]), "".join(existing[at:])
    begin = BEGIN if not before or before.endswith("\n") else "\n" + BEGIN_IN_LINE
    return before + "".join(f"{line}\n" for line in (begin, *lines, END)) + after


def replace(text: str, lines: Sequence[str], first: int, last: int) -> str:
    """Return the text with a block in place of the lines from first to last, which are counted from 0."""
    existing = lines_of(text)
    kept = [
        WAS + line if line.endswith("\n") else f"{WAS_IN_LINE}{line}\n" for line in existing[first : last + 1]
    ]
    block = [f"{BEGIN}\n", *(f"{line}\n" for line in lines), *kept, f"{END}\n"]
    return "".join([*existing[:first], *block, *existing[last + 1 :]])


def strip(name: str, text: str) -> str:
    """Return the text as it was before its blocks. Raises CgpuError when a mark is missing."""
    kept: list[str] = []
    inside = False
    open_end = -1  # how many lines were kept when one came back that had no end
    for line in lines_of(text):
        body = line.removesuffix("\n")
        if not inside:
            inside = body in (BEGIN, BEGIN_IN_LINE)
            if body == BEGIN_IN_LINE:
                open_end = len(kept)
            elif not inside:
                kept.append(line)
        elif body == END:
            inside = False
        elif body.startswith(WAS_IN_LINE):
            kept.append(body.removeprefix(WAS_IN_LINE) + "\n")
            open_end = len(kept)
        elif body.startswith(WAS):
            kept.append(line.removeprefix(WAS))
    if inside:
        raise CgpuError(f"{name}: the line {END!r} is missing after {BEGIN!r}: remove that block by hand")
    if kept and open_end == len(kept):  # else somebody has added lines since, and the end is needed
        kept[-1] = kept[-1].removesuffix("\n")
    return "".join(kept)


def is_ours(text: str) -> bool:
    """Return whether a file is a block and nothing else, made where there was none."""
    marks = text.startswith(BEGIN + "\n") and text.endswith(END + "\n")
    return marks and WAS_IN_LINE not in text and not strip("", text)


def as_file(before: str | None, after: str) -> str | None:
    """Return what a file shall hold, None for no file. before: what is there; after: what it shall say.

    A file that was there and empty stays one: its block remembers it by an empty line that had no end.
    """
    if before is None or is_ours(before):
        return after or None
    if is_ours(after):
        return after.removesuffix(END + "\n") + f"{WAS_IN_LINE}\n{END}\n"
    return after
